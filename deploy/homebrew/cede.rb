# Not published, and never run: the name on PyPI has not been claimed, so there is no file behind `url`, and no sum of one.
# For a tap of one's own (`brew tap-new`, `brew install TAP/cede`): Homebrew's own formulae build each dependency from its
# source, and torch is taken as the wheel that PyPI has.
class Cede < Formula
  desc "LLM inference server that frees the accelerator the moment nobody is listening"
  homepage "https://pypi.org/project/cede/"
  url "https://files.pythonhosted.org/packages/source/c/cede/cede-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "MIT"

  depends_on "python@3.12"

  def install
    system "python3.12", "-m", "venv", libexec
    system libexec/"bin/pip", "install", buildpath # with a compiler, which Homebrew has: the kernels are built
    bin.install_symlink libexec/"bin/cede"
  end

  service do
    run [opt_bin/"cede", "serve"]
    keep_alive true
    log_path var/"log/cede.log"
    error_log_path var/"log/cede.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/cede --version")
  end
end
