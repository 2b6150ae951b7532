"""The mailbox's two lanes, and answers that come before anyone waits for them."""

from __future__ import annotations

import outcome
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors.core.commands import Command, DiskHasSpace, Enqueue, Recovered
from actors.core.mailbox import Mailbox
from actors.core.reply import Reply
from runtime.common.ownership import NotTheOwner, TaskOwner
from runtime.errors import DeviceLost


def test_each_lane_is_in_order_and_taken_by_itself() -> None:
    mailbox = Mailbox()
    commands: list[Command] = [Enqueue([]), DiskHasSpace(), Enqueue([]), Recovered(None)]
    for command in commands:
        mailbox.post(command)
    assert len(mailbox) == 4
    assert list(mailbox.take_for_queue()) == [commands[0], commands[2]]
    assert list(mailbox.take_for_slots()) == [commands[1], commands[3]]
    assert len(mailbox) == 0


async def test_only_commands_on_the_queue_wake_who_waits_for_them() -> None:
    mailbox, woken = Mailbox(), list[str]()

    async def queue_server() -> None:
        await mailbox.wait_for_queue_mail()
        woken.append("queue_server")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue_server)
        await wait_all_tasks_blocked()
        mailbox.post(DiskHasSpace())
        await mailbox.wait()
        await wait_all_tasks_blocked()
        assert woken == []
        mailbox.post(Enqueue([]))
    assert woken == ["queue_server"]


def test_once_closed_everything_is_refused_what_was_there_too() -> None:
    mailbox, refused = Mailbox(), list[Command]()
    before, after = Enqueue([]), DiskHasSpace()
    mailbox.post(before)
    mailbox.close(refused.append)
    mailbox.post(after)
    assert mailbox.is_closed
    assert (refused, len(mailbox)) == ([before, after], 0)


async def test_an_answer_is_kept_until_somebody_waits() -> None:
    reply = Reply[int]()
    reply.set(outcome.Value(7))
    reply.set(outcome.Value(8))  # the first is the one that counts
    assert (await reply.wait(), reply.value) == (7, 7)


async def test_an_error_is_an_answer_too() -> None:
    reply = Reply[int]()
    reply.set(outcome.Error(DeviceLost("gone")))
    with pytest.raises(DeviceLost, match="gone"):
        await reply.wait()


async def test_a_cancelled_wait_says_so_at_once_and_loses_no_later_answer() -> None:
    reply, said = Reply[int](), list[float]()
    with trio.move_on_after(0.01) as patience:
        await reply.wait(lambda: said.append(trio.current_time()))
    assert patience.cancelled_caught
    assert len(said) == 1
    reply.set(outcome.Value(7))
    assert reply.value == 7


async def test_what_is_lent_is_the_borrower_s_alone_until_it_comes_back() -> None:
    owner, tasks, is_lent = TaskOwner(), list[trio.lowlevel.Task](), trio.Event()

    async def borrower(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        tasks.append(trio.lowlevel.current_task())
        with pytest.raises(NotTheOwner):
            owner.check()
        task_status.started()
        await is_lent.wait()
        assert owner.is_current
        owner.check()

    with owner.claim():
        async with trio.open_nursery() as nursery:
            await nursery.start(borrower)
            with owner.lend(tasks[0]):
                with pytest.raises(NotTheOwner):
                    owner.check()
                is_lent.set()
                await wait_all_tasks_blocked()
            owner.check()


def test_who_watches_is_told_that_a_command_has_come_even_if_it_was_taken_since() -> None:
    mailbox = Mailbox()
    mailbox.post(DiskHasSpace())
    assert not mailbox.watch()()  # it came before, and was not taken
    assert list(mailbox.take_for_slots())
    is_quiet = mailbox.watch()
    assert is_quiet()
    mailbox.post(Enqueue([]))
    assert not is_quiet()
    assert list(mailbox.take_for_queue())
    assert not is_quiet()
    assert mailbox.watch()()
