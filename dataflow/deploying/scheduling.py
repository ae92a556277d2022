"""What peers ask of each other about schedulers: who leads the launch of an app, and who looks after it.

    Tend       "take this app, or keep it"            -> Agreed | Elsewhere
    Schedule   "launch it" + the sealed bundle        -> Scheduled + facts, or the complaint, as JSON
    Succeed    "I am full: be a scheduler after me"   -> Agreed

`Tend` is quick and may be repeated: it is how a launcher claims a scheduler, how it looks whether that one still
lives while it works, and how an app's keeper renews the claim for as long as the app runs. So a scheduler that dies is
missed by the next `Tend`, and an app whose keeper died is missed by its scheduler.

Rejected: one question that does all (an answer that takes a minute cannot tell the slow from the dead).
"""

from dataclasses import dataclass
from typing import Final

from dataflow.deploying.requests import AppId
from overlay.wire import U16, U64, Contacts, Flag, WirePeers, message


@message(tag=115)
@dataclass(frozen=True, slots=True)
class Schedule:
    """Only to who agreed to tend the app. The sealed bundle is the body.

    `attempt` counts the schedulers that fell silent over this launch: the next generation overtakes what they left.
    """

    ask: U64
    app: AppId
    attempt: U16
    is_rehearsal: Flag


@message(tag=116)
@dataclass(frozen=True, slots=True)
class Scheduled:
    """The body is JSON: the facts of the launch if `is_launched`, else a complaint."""

    ask: U64
    is_launched: Flag


@message(tag=117)
@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Not with me. `is_full`: I am a scheduler, and `successor` (none or one) may have room; else I am none."""

    ask: U64
    is_full: Flag
    successor: Contacts


@message(tag=118)
@dataclass(frozen=True, slots=True)
class Tend:
    """`elect`: be a scheduler for it, if you are none. `avoid`: who did not answer. `is_over`: let go of it."""

    ask: U64
    app: AppId
    elect: Flag
    is_over: Flag
    avoid: WirePeers


@message(tag=119)
@dataclass(frozen=True, slots=True)
class Succeed:
    """`passed`: who is full already, so that the next successor is none of them."""

    ask: U64
    passed: WirePeers


SchedulingRequest = Schedule | Tend | Succeed
SchedulingReply = Scheduled | Elsewhere
SCHEDULING_REPLIES: Final = (Scheduled, Elsewhere)
