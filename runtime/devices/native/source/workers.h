// Threads that share the pieces of a step's work.
//
// Whoever calls `run` works on the pieces, too, and waits for nobody who has not taken one.  So a thread that another
// program keeps from running holds nothing up, and a thread that sleeps need not be waited for.  Between two calls the
// threads look for work for a few microseconds, which is as long as the caller needs from one layer to the next; then
// they sleep, and cost nothing while the server is idle.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace cede {

constexpr std::chrono::microseconds LOOKS_FOR_WORK{60};
constexpr int LOOKS_BETWEEN_CLOCKS = 64;

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb");  // `yield` takes no time on most
#endif
}

class Workers {
   public:
    // `threads` counts the caller.
    explicit Workers(int threads) {
        for (int number = 1; number < threads; ++number) threads_.emplace_back([this, number] { work(number); });
    }

    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    ~Workers() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            ending_ = true;
        }
        wake_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

    // How many threads, the caller among them, may take pieces from now on; as many as there are at most.
    void use(int threads) { used_.store(threads, std::memory_order_relaxed); }

    // Call `piece(i)` for each i below `count`, on several threads at once; return when all calls have returned.
    template <class Piece>
    void run(int count, Piece&& piece) {
        if (count <= 1 || threads_.empty() || used_.load(std::memory_order_relaxed) <= 1) {
            for (int i = 0; i < count; ++i) piece(i);
            return;
        }
        call_ = [](void* context, int i) { (*static_cast<std::remove_reference_t<Piece>*>(context))(i); };
        context_ = &piece;
        done_.store(0, std::memory_order_relaxed);
        round_ = (round_ + 1) & 0xffffffff;
        tickets_.store(round_ << 32 | static_cast<uint64_t>(count) << 16);  // count is below 2^16
        if (sleeping_.load() > 0) {
            { std::lock_guard<std::mutex> lock(mutex_); }  // who is about to sleep sees the tickets or is woken
            wake_.notify_all();
        }
        work_on_pieces();
        for (int looks = 0; done_.load(std::memory_order_acquire) < count; ++looks) {
            pause();
            if (looks > LOOKS_BETWEEN_CLOCKS) std::this_thread::yield();
        }
    }

   private:
    // Tickets are one number: the round, how many pieces it has, and the next one.  Who takes a piece of a round may
    // read `call_` and `context_`: they are changed only when all of its pieces are done.
    static bool has_piece(uint64_t tickets) { return (tickets & 0xffff) < (tickets >> 16 & 0xffff); }

    bool has_work(int number) const {
        return number < used_.load(std::memory_order_relaxed) && has_piece(tickets_.load());
    }

    void work_on_pieces() {
        uint64_t tickets = tickets_.load(std::memory_order_acquire);
        while (has_piece(tickets)) {
            if (!tickets_.compare_exchange_weak(tickets, tickets + 1, std::memory_order_acq_rel)) continue;
            call_(context_, static_cast<int>(tickets & 0xffff));
            done_.fetch_add(1, std::memory_order_release);
            tickets = tickets_.load(std::memory_order_acquire);
        }
    }

    void work(int number) {
        while (true) {
            const auto began = std::chrono::steady_clock::now();
            for (int looks = 1; !has_work(number); ++looks) {
                if (ending_) return;
                pause();
                if (looks % LOOKS_BETWEEN_CLOCKS == 0 && std::chrono::steady_clock::now() - began > LOOKS_FOR_WORK) {
                    sleep(number);
                    break;
                }
            }
            if (has_work(number)) work_on_pieces();
        }
    }

    void sleep(int number) {
        std::unique_lock<std::mutex> lock(mutex_);
        sleeping_.fetch_add(1);
        wake_.wait(lock, [this, number] { return ending_ || has_work(number); });
        sleeping_.fetch_sub(1);
    }

    std::vector<std::thread> threads_;
    std::atomic<uint64_t> tickets_{0};
    std::atomic<int> done_{0}, sleeping_{0}, used_{1};
    std::atomic<bool> ending_{false};
    void (*call_)(void*, int) = nullptr;
    void* context_ = nullptr;
    uint64_t round_ = 0;
    std::mutex mutex_;
    std::condition_variable wake_;
};

}  // namespace cede
