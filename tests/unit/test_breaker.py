"""After one failure the next callers fail at once, until a trial succeeds."""

from __future__ import annotations

import pytest

from hermes_pgmemory.breaker import CircuitBreaker
from hermes_pgmemory.errors import DatabaseBusy, DatabaseUnavailable, Rejected


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def breaker(clock):
    return CircuitBreaker(retry_s=10, clock=clock)


def fail(breaker):
    with pytest.raises(DatabaseUnavailable, match="down"), breaker.guard():
        raise DatabaseUnavailable("down")


def test_lets_calls_through_while_the_service_answers(breaker):
    for _ in range(3):
        with breaker.guard():
            pass
    assert breaker.failure is None


def test_refuses_at_once_after_a_failure_and_says_why(breaker):
    fail(breaker)
    reached = False
    with pytest.raises(DatabaseUnavailable, match="down"), breaker.guard():
        reached = True
    assert not reached


def test_lets_exactly_one_caller_try_when_the_time_has_come(breaker, clock):
    fail(breaker)
    clock.now += 10
    with breaker.guard():
        others = pytest.raises(DatabaseUnavailable, match="down")
        with others, breaker.guard():
            pass
    assert breaker.failure is None


def test_a_failed_trial_starts_the_wait_anew(breaker, clock):
    fail(breaker)
    clock.now += 10
    fail(breaker)
    clock.now += 9
    with pytest.raises(DatabaseUnavailable), breaker.guard():
        pass


def ask_too_much(breaker):
    with pytest.raises(DatabaseBusy, match="slow"), breaker.guard():
        raise DatabaseBusy("slow")


def test_one_slow_question_costs_the_others_nothing(breaker):
    for _ in range(5):
        ask_too_much(breaker)
        with breaker.guard():
            pass
    assert breaker.failure is None


def test_several_slow_ones_in_a_row_open_it(breaker):
    for _ in range(3):
        ask_too_much(breaker)
    with pytest.raises(DatabaseBusy), breaker.guard():
        pytest.fail("it was reached")


def test_an_answer_of_no_does_not_open_it(breaker):
    with pytest.raises(Rejected), breaker.guard():
        raise Rejected("this text never")
    with breaker.guard():
        pass


def test_a_rejected_trial_proves_the_service_is_back(breaker, clock):
    fail(breaker)
    clock.now += 10
    with pytest.raises(Rejected), breaker.guard():
        raise Rejected("this text never")
    assert breaker.failure is None
