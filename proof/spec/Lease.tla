------------------------------- MODULE Lease -------------------------------
(***************************************************************************)
(* One node ID's item in the table, and all of its writers.                *)
(*                                                                         *)
(* S1  No millisecond of the node ID is used by two sessions. No clock is  *)
(*     trusted: with Wild = TRUE each reading of a clock is any value,     *)
(*     and any lease may count as expired, or not, at any time.            *)
(* S2  At most one session at a time believes that it holds the node ID.   *)
(*     With Wild = FALSE time passes, and a reading is off by at most      *)
(*     epsilon, with a new error for every reading.                        *)
(*                                                                         *)
(* The network keeps every request forever, and delivers any of them, in   *)
(* any order, any number of times: this covers delay, reordering, loss and *)
(* re-sending. An answer is lost, or waits until it is read.               *)
(* A process may pause between any two actions; a crash is a pause without *)
(* end. `Weak("x")` marks the place where mutant x weakens the protocol:   *)
(* with Mutant = "none" each is FALSE. README.md lists what is left out.   *)
(***************************************************************************)
EXTENDS Integers, TLC

CONSTANTS
  Sessions,     \* a session is one life of a lease: another try is another session
  Leases,       \* lengths of a lease that a renewal may request; a claim requests the shortest
  Reserves,     \* how far ahead of its clock a renewal may reserve; a claim reserves the least
  G, Sigma,     \* owner's guard g, claimant's guard
  Wild,         \* TRUE: no clock is trusted (S1); FALSE: bounded error (S2)
  Walls,        \* Wild: the readings of a clock. Not Wild: its largest errors, both ways
  MaxTime,      \* real time ends here (Wild: so do two mutants that stamp without a span)
  MaxTries,     \* attempts to claim, of one session
  MaxRenewals,  \* attempts to renew, of one session
  MaxVersion,   \* total of claims that may land
  Extras,       \* which of "stamp", "release", "abandon", "reap", "force", "retire", "remake",
                \* "restore", "capped" happen
  Mutant        \* "none", or the name of the weakened line

VARIABLES
  now,          \* real time, and every monotonic clock
  item,         \* the item of the node ID
  floor,        \* the floor of a seed
  backup,       \* the item in the backup
  requests,     \* every write that was ever sent
  answers,      \* answers in flight
  me            \* the knowledge of each session

vars == <<now, item, floor, backup, requests, answers, me>>

None   == "none"
Absent == -100          \* an attribute that does not exist
Weak(m) == Mutant = m
Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b
Least(s) == CHOOSE a \in s : \A b \in s : a <= b

Nothing == [holder |-> None, version |-> Absent, renewal |-> 0, exp |-> 0,
            nb |-> 0, ru |-> Absent, retired |-> FALSE]

Idle == [state |-> "idle", tries |-> 0, first |-> 0, v |-> Absent, nb |-> 0, sent |-> 0,
         asked |-> 0, askedExp |-> 0, stored |-> {}, conf |-> 0, last |-> 0, deadline |-> 0]

Init == /\ now = 0 /\ floor = 0
        /\ item = Nothing /\ backup = Nothing
        /\ requests = {} /\ answers = {}
        /\ me = [h \in Sessions |-> Idle]

----------------------------------------------------------------------------
(* Clocks, and lengths *)

Clock == IF Wild THEN Walls ELSE {now + e : e \in Walls} \cup {now - e : e \in Walls}

L == Least(Leases)      \* of a claim, and the least of a renewal
H == Least(Reserves)

(* The holder's one clock: the wall clock at the claim plus monotonic time, so it cannot step. *)
RenewClock == IF Weak("renew-stepped-clock") THEN Clock \cup {now - L} ELSE Clock

Reserve(h) == IF Weak("reserve-short") THEN Sigma + 1 ELSE h
Guard   == IF Weak("guard-small") THEN G - 2 ELSE G
ClaimGuard == IF Weak("claim-no-sigma") THEN 0 ELSE Sigma
Expiry(w) == IF Wild THEN 0 ELSE w + L
Expired(exp, margin, w) == IF Wild THEN BOOLEAN ELSE {exp + margin < w}   \* the possible results

----------------------------------------------------------------------------
(* The writes: the condition, and the item after it. Each is one UpdateItem. *)

(* Claim.Apply *)
MayClaim(q, expired) ==
  /\ item.version # Absent /\ item.ru # Absent
  /\ ~item.retired \/ Weak("claim-retired")
  /\ \/ item.holder = None
     \/ expired
     \/ Weak("claim-same-task")             \* every session here is of one task
  /\ item.ru <= q.w + Sigma \/ Weak("claim-ignores-reserved")
Claimed(q) ==
  [item EXCEPT !.holder = q.by, !.version = @ + 1, !.renewal = 0, !.exp = Expiry(q.w),
               !.nb = item.ru,
               !.ru = IF Weak("lagging-report") THEN item.ru ELSE q.w + Reserve(H)]

(* Renew.Apply. The last condition is for copies of a process, which the model does not have:    *)
(* the stored values are the holder's own. It would hide these mutants of the others.            *)
HiddenByOwn == {"renew-any-holder", "renew-any-version", "renew-any-order", "repeat-new-bytes"}
MayRenew(q) ==
  /\ item.version # Absent
  /\ item.holder = q.by   \/ Weak("renew-any-holder")
  /\ item.version = q.v   \/ Weak("renew-any-version")
  /\ item.renewal < q.s   \/ Weak("renew-any-order")
  /\ item.ru \in q.own    \/ Weak("renew-over-any") \/ Mutant \in HiddenByOwn
Renewed(q) == [item EXCEPT !.renewal = q.s, !.exp = q.exp, !.ru = q.ru]

(* Release.Apply, and with v = Absent Abandon.Apply *)
MayRelease(q) ==
  /\ item.version # Absent
  /\ item.holder = q.by  \/ (Weak("release-any-holder") /\ q.v # Absent)
  /\ item.version = q.v  \/ q.v = Absent \/ Weak("release-any-version")
Released(q) ==
  [item EXCEPT !.holder = None, !.exp = 0,
               !.ru = IF q.v # Absent THEN q.ru
                      ELSE IF Weak("abandon-below") THEN 0 ELSE item.nb]

(* Reap.Apply *)
MayReap(q) ==
  /\ item.version # Absent
  /\ item.holder = q.holder \/ Weak("reap-any-holder")  \/ Weak("reap-unpinned")
  /\ item.version = q.v     \/ Weak("reap-any-version") \/ Weak("reap-unpinned")
  /\ item.renewal = q.s     \/ Weak("reap-any-renewal") \/ Weak("reap-unpinned")
Reaped == IF Weak("reap-deletes") THEN Nothing
          ELSE [item EXCEPT !.holder = None, !.exp = 0]

(* ForceRelease.Apply *)
MayForce(q) == item.version = q.v \/ (Weak("force-unpinned") /\ item.version # Absent)
Forced == [item EXCEPT !.holder = None, !.exp = 0,
                       !.ru = IF Weak("force-lowers") THEN item.nb ELSE @]

May(q) == CASE q.type = "claim"   -> {MayClaim(q, x) : x \in Expired(item.exp, ClaimGuard, q.w)}
            [] q.type = "renew"   -> {MayRenew(q)}
            [] q.type = "release" -> {MayRelease(q)}
            [] q.type = "reap"    -> {MayReap(q)}
            [] q.type = "force"   -> {MayForce(q)}
After(q) == CASE q.type = "claim"   -> Claimed(q)
              [] q.type = "renew"   -> Renewed(q)
              [] q.type = "release" -> Released(q)
              [] q.type = "reap"    -> Reaped
              [] q.type = "force"   -> Forced

(* Does a session still wait for an answer to q? Each request is one call, so a late answer to *)
(* an early attempt may come after a newer attempt was sent.                                  *)
Awaited(q) == \/ q.type = "claim" /\ me[q.by].state = "claiming"
              \/ q.type = "renew" /\ me[q.by].state = "held" /\ me[q.by].v = q.v

(* Store.Write: one request reaches the table. The answer (the item as written, or ALL_OLD) may *)
(* get lost.                                                                                    *)
Deliver(q) == \E ok \in May(q) :
  LET seen == IF ok THEN After(q) ELSE item
  IN /\ item' = seen
     /\ \/ UNCHANGED answers
        \/ /\ Awaited(q)
           /\ answers' = {a \in answers : a.to # q}
                           \cup {[to |-> q, ok |-> ok, holder |-> seen.holder, v |-> seen.version,
                                  s |-> seen.renewal, exp |-> seen.exp, nb |-> seen.nb,
                                  ru |-> seen.ru]}
     /\ UNCHANGED <<now, floor, backup, requests, me>>

Send(q) == requests' = requests \cup {q}
Forget(h) == answers' = {a \in answers : a.to.by # h}

----------------------------------------------------------------------------
(* A session *)

(* Agent.claim: an attempt, or a further one of the same session after an unknown outcome. m0  *)
(* and w are read before the request is sent.                                                  *)
TryClaim(h) ==
  /\ me[h].state \in {"idle", "claiming"} /\ me[h].tries < MaxTries
  /\ \E w \in Clock : Send([type |-> "claim", by |-> h, m0 |-> now, w |-> w])
  /\ me' = [me EXCEPT ![h].state = "claiming", ![h].tries = @ + 1,
                      ![h].first = IF me[h].tries = 0 THEN now ELSE @]
  /\ UNCHANGED <<now, item, floor, backup, answers>>

(* A session that has ended. Only its possible stamps are kept, for S1.                         *)
End(h) == me' = [me EXCEPT ![h] = [Idle EXCEPT !.state = "gone", !.tries = MaxTries,
                   !.v = me[h].v, !.nb = me[h].nb, !.last = me[h].last]]

Hold(h, a, confirmed, m0) ==
  me' = [me EXCEPT ![h] = [@ EXCEPT
           !.state = "held", !.v = a.v, !.sent = a.s, !.asked = a.ru, !.conf = confirmed,
           !.nb   = IF Weak("no-reserved") \/ Weak("stamp-early") THEN 0 ELSE a.nb,
           !.last = IF Weak("no-reserved") \/ Weak("stamp-early") THEN 0 ELSE a.nb,
           !.askedExp = a.exp, !.stored = {<<a.s, a.ru>>},
           !.first = 0, !.deadline = IF Wild THEN 0 ELSE m0 + L - Guard]]

(* Config.claimed: the answer to a claim. ALL_OLD that names this session is an earlier attempt *)
(* that landed: held, but trusted only from the first attempt on.                               *)
ClaimAnswered(a) ==
  LET h == a.to.by
  IN /\ me[h].state = "claiming"
     /\ IF a.ok THEN Hold(h, a, a.ru, IF Weak("deadline-from-reply") THEN now ELSE a.to.m0)
        ELSE IF a.holder = h
             THEN Hold(h, a, IF Weak("settled-own-reserve") THEN a.to.w + Reserve(H) ELSE a.ru,
                       IF Weak("settled-this-attempt") THEN a.to.m0 ELSE me[h].first)
             ELSE End(h)
     /\ Forget(h)
     /\ UNCHANGED <<now, item, floor, backup, requests>>

(* Agent.abandon: a claim whose outcome is unknown, or whose answer came too late, is given up  *)
(* by a session that stamped nothing.                                                           *)
Abandon(h) ==
  /\ "abandon" \in Extras
  /\ \/ me[h].state = "claiming"
     \/ me[h].state = "held" /\ (me[h].last = me[h].nb \/ Weak("abandon-after-use"))
  /\ Send([type |-> "release", by |-> h, v |-> Absent, ru |-> 0])
  /\ End(h)
  /\ Forget(h)
  /\ UNCHANGED <<now, item, floor, backup>>

(* A repeat of an attempt sends the same bytes, so it is not a separate step: Deliver again. *)
Attempts(n) == (IF n < MaxRenewals THEN {n + 1} ELSE {})
               \cup (IF Weak("repeat-new-bytes") /\ n > 0 THEN {n} ELSE {})

(* A capped attempt (a widening try is open, or too many values had no answer) reserves nothing *)
(* that was not requested before.                                                               *)
Capped == IF "capped" \in Extras THEN BOOLEAN ELSE {FALSE}

(* The lease of an attempt is no longer than its reserve less the claimants' guard, so that a   *)
(* force release lets no one in while the lease is trusted. It is never shorter than L.         *)
Cut(l, h) == IF Weak("lease-uncut") THEN l ELSE Max(L, Min(l, h - Sigma))

(* Term.Attempt: the next renewal. It requests any length, also a shorter one after a longer    *)
(* one, and never less than this version ever requested or saw. Once it is confirmed, trust     *)
(* counts from its own m0 and with its own lease l. Where less is reserved than l needs, trust  *)
(* counts from earlier than m0 (Term.missing).                                                  *)
TryRenew(h) ==
  /\ me[h].state = "held"
  /\ \E w \in RenewClock, s \in Attempts(me[h].sent), wl \in Leases, wh \in Reserves, c \in Capped :
       LET base == IF Weak("renew-from-confirmed") THEN me[h].conf ELSE me[h].asked
           ahead == w + Reserve(wh)
           ru   == IF c THEN me[h].asked
                   ELSE IF Weak("lagging-report") THEN me[h].last
                   ELSE IF Weak("reserve-goes-back") THEN ahead ELSE Max(ahead, base)
           l    == IF Wild THEN 0 ELSE Cut(wl, IF c THEN Min(wh, ru - w) ELSE wh)
           exp  == IF Wild THEN 0
                   ELSE IF Weak("renew-expiry-no-max") THEN w + l ELSE Max(w + l, me[h].askedExp)
           m0   == IF c /\ ~Wild /\ ~Weak("missing-trusted") THEN now - Max(0, w + l + Sigma - ru) ELSE now
       IN /\ Send([type |-> "renew", by |-> h, v |-> me[h].v, s |-> s, m0 |-> m0, l |-> l,
                   exp |-> exp, ru |-> ru, own |-> {p[2] : p \in me[h].stored}])
          /\ me' = [me EXCEPT ![h].stored = @ \cup {<<s, ru>>}, ![h].sent = s, ![h].asked = Max(@, ru), ![h].askedExp = Max(@, exp)]
  /\ UNCHANGED <<now, item, floor, backup, answers>>

(* The newest attempt. No answer to an older one may use its m0 or its length. *)
Newest(h) == CHOOSE q \in requests : q.type = "renew" /\ q.by = h /\ q.s = me[h].sent

Confirm(h, a, ru) ==
  LET m0 == IF Weak("deadline-from-reply") THEN now
            ELSE IF Weak("deadline-from-newest") THEN Newest(h).m0 ELSE a.to.m0
      l  == IF Weak("length-from-newest") THEN Newest(h).l ELSE a.to.l
  IN me' = [me EXCEPT ![h].conf = Max(@, IF Weak("confirm-newest-reserve") THEN me[h].asked ELSE ru),
                      ![h].asked = Max(@, ru),
                      \* term.settles: a.s is stored, and no earlier request
                      ![h].stored = {p \in @ : p[1] >= a.s},
                      ![h].deadline = IF Wild THEN 0 ELSE Max(@, m0 + l - Guard)]

(* term.confirmed and term.refused: the answer to a renewal. A refusal whose ALL_OLD has this  *)
(* holder, version and a renewal from this attempt's on confirms; any other one is a loss.     *)
(* At the deadline (Agent.bark) nothing changes: the next confirmation resumes.                *)
RenewAnswered(a) ==
  LET h == a.to.by
      landed == /\ a.holder = h
                /\ a.v = me[h].v \/ Weak("refused-any-version")
                /\ a.s >= a.to.s /\ a.s <= me[h].sent
  IN /\ me[h].state = "held"
     /\ IF a.ok THEN Confirm(h, a, a.to.ru) /\ answers' = answers \ {a}
        ELSE IF landed THEN Confirm(h, a, a.ru) /\ answers' = answers \ {a}
        ELSE IF Weak("refused-taken-for-landed") THEN Confirm(h, a, a.to.ru) /\ answers' = answers \ {a}
        ELSE me' = [me EXCEPT ![h].state = "lost"] /\ Forget(h)
     /\ UNCHANGED <<now, item, floor, backup, requests>>

(* Generator.Next: milliseconds of the confirmed span, in order. A goroutine that was paused    *)
(* inside it may do so even after the session has learned of its loss.                          *)
Stamp(h) ==
  /\ "stamp" \in Extras
  /\ me[h].state \in {"held", "lost", "unfenced"}
  /\ me[h].v # Absent
  /\ LET top == IF Weak("no-reserved") \/ Weak("lagging-report") THEN MaxTime
                ELSE IF Weak("stamp-unconfirmed") THEN me[h].asked ELSE me[h].conf
     IN \E ms \in (me[h].last + 1)..top : me' = [me EXCEPT ![h].last = ms]
  /\ UNCHANGED <<now, item, floor, backup, requests, answers>>

(* Agent.Close: Timeline.Close, then term.release. `last` is read after the fence, and a session *)
(* that has sent a release never continues. (last = not_before if nothing was stamped.)         *)
Release(h) ==
  /\ "release" \in Extras /\ me[h].state = "held"
  /\ Send([type |-> "release", by |-> h, v |-> me[h].v,
           ru |-> IF Weak("release-below") /\ me[h].last = me[h].nb THEN 0 ELSE me[h].last])
  /\ IF Weak("release-goes-on") \/ Weak("release-unfenced")
     THEN me' = [me EXCEPT ![h].state = IF Weak("release-goes-on") THEN "held" ELSE "unfenced"]
     ELSE End(h)
  /\ Forget(h)
  /\ UNCHANGED <<now, item, floor, backup>>

----------------------------------------------------------------------------
(* The pool's side *)

(* Pool.Seed. Seed.Apply's condition makes a delay harmless, so it is one step. *)
Seed ==
  /\ item.version = Absent \/ Weak("seed-resets")
  /\ item' = [item EXCEPT !.version = 0, !.ru = IF Weak("seed-again-at-0") THEN 0 ELSE floor]
  /\ UNCHANGED <<now, floor, backup, requests, answers, me>>

(* Pool.Seed of a table that was lost and recreated: the floor is after every stamp. No            *)
(* earlier request reaches the new table, since the versions start again at 0 there.            *)
Remake ==
  /\ "remake" \in Extras /\ floor = 0 /\ item.version # Absent
  /\ item' = Nothing /\ floor' = item.ru
  /\ requests' = {} /\ answers' = {}
  /\ UNCHANGED <<now, backup, me>>

(* Pool.Raise: the table is restored from a backup. Before any process starts, Raise.Apply ends  *)
(* the lease, and moves reserved_until past every stamp since the backup.                       *)
Backup == /\ "restore" \in Extras /\ backup = Nothing /\ item.version # Absent
          /\ backup' = item /\ UNCHANGED <<now, item, floor, requests, answers, me>>
Restore ==
  /\ backup # Nothing
  /\ LET to == Max(item.ru, floor)
     IN item' = IF backup.ru >= to \/ Weak("restore-unraised") THEN backup
                ELSE [backup EXCEPT !.holder = None, !.exp = 0, !.ru = to]
  /\ backup' = Nothing /\ requests' = {} /\ answers' = {}
  /\ UNCHANGED <<now, floor, me>>

(* Pool.Resize: Retire.Apply, and back. It touches nothing else, and only an item that exists. *)
Retire ==
  /\ "retire" \in Extras
  /\ item.version # Absent \/ Weak("retire-creates")
  /\ item' = [item EXCEPT !.retired = ~@]
  /\ UNCHANGED <<now, floor, backup, requests, answers, me>>

(* Pool.Reap: the reaper reads, and sends a write that names the values it saw. *)
TryReap ==
  /\ "reap" \in Extras /\ item.holder # None
  /\ \A q \in requests : q.type # "reap"
  /\ (\E w \in Clock : TRUE \in Expired(item.exp, Sigma, w)) \/ Weak("reap-unexpired")
  /\ Send([type |-> "reap", holder |-> item.holder, v |-> item.version, s |-> item.renewal])
  /\ UNCHANGED <<now, item, floor, backup, answers, me>>

(* Pool.ForceRelease: an operator names the version to be released. *)
TryForce ==
  /\ "force" \in Extras /\ item.holder # None
  /\ \A q \in requests : q.type # "force"
  /\ Send([type |-> "force", v |-> item.version])
  /\ UNCHANGED <<now, item, floor, backup, answers, me>>

Tick == ~Wild /\ now < MaxTime /\ now' = now + 1 /\ UNCHANGED <<item, floor, backup, requests, answers, me>>

Next ==
  \/ Tick \/ Seed \/ Remake \/ Backup \/ Restore \/ Retire \/ TryReap \/ TryForce
  \/ \E q \in requests : Deliver(q)
  \/ \E a \in answers : a.to.type = "claim" /\ ClaimAnswered(a)
  \/ \E a \in answers : a.to.type = "renew" /\ RenewAnswered(a)
  \/ \E h \in Sessions : \/ TryClaim(h) \/ Abandon(h) \/ TryRenew(h)
                         \/ Stamp(h) \/ Release(h)

Spec == Init /\ [][Next]_vars
Bound == item.version <= MaxVersion
(* For configurations of several lengths: only the first holder renews, so that they end.       *)
FirstRenews == \A q \in requests : q.type = "renew" => q.v = 1

----------------------------------------------------------------------------
(* What must hold *)

Held(h) == me[h].v # Absent

(* S1. A session may have used any millisecond of (nb, last]: `Stamp` jumps to `last` over any *)
(* of them, and a behaviour that stamps it on the way is one of the model too.                 *)
S1 == \A a, b \in Sessions :
        a # b /\ Held(a) /\ Held(b) => Max(me[a].nb, me[b].nb) >= me[a].last
                                       \/ Max(me[a].nb, me[b].nb) >= me[b].last

(* Why S1 holds: the stored reserved_until is never below a stamp. *)
Ahead == item.ru # Absent =>
           \A h \in Sessions : Held(h) /\ me[h].last > me[h].nb => me[h].last <= item.ru

(* Agent.Lease, asked at each use: before the deadline, and not before not_before on some       *)
(* reading of its clock (Start waits for that).                                                *)
Believes(h) == /\ me[h].state = "held"
               /\ (\E w \in Clock : w >= me[h].nb) \/ Weak("believe-early")
               /\ now < me[h].deadline \/ Weak("deadline-ignored")

S2 == \A a, b \in Sessions : Believes(a) /\ Believes(b) => a = b

(* A session that believes is in the table, unless an operator released just this version. *)
Owns == \A h \in Sessions : Believes(h) =>
          \/ item.holder = h /\ item.version = me[h].v
          \/ \E q \in requests : q.type = "force" /\ q.v = me[h].v

(* A renewal of the holder is refused only because of itself or a later one: the stored one is  *)
(* one of those that it may follow.                                                             *)
Follows == \A a \in answers :
             a.to.type = "renew" /\ ~a.ok /\ a.holder = a.to.by /\ a.v = a.to.v => a.s >= a.to.s

(* No write makes half an item. *)
Whole == item.version = Absent => item = Nothing

(* A retired node ID is never assigned, and no version occurs twice (except by a restored table). *)
Rests == [][item.retired /\ item.version # Absent /\ backup' = backup
              => item'.version <= item.version]_vars
Grows == [][item'.version # Absent /\ backup' = backup => item'.version >= item.version]_vars

----------------------------------------------------------------------------
(* Reachability, so that the above do not hold just because nothing happens: each of these      *)
(* must be violated.                                                                           *)

NeverSettles == \A a \in answers : a.to.type = "claim" /\ ~a.ok => a.holder # a.to.by
NeverResumes == [][\A h \in Sessions : me[h].state = "held" /\ now >= me[h].deadline
                                        => me'[h].deadline <= now]_vars
NeverForcedWhileHeld == \A h \in Sessions : Believes(h) => item.holder = h
NeverShorter == \A a \in answers : a.to.type = "renew" /\ a.ok =>
                  \A q \in requests : q.type = "renew" /\ q.s < a.to.s => q.l <= a.to.l
NeverBothStamp == \E h \in Sessions : Held(h) => me[h].last <= me[h].nb

Symmetry == Permutations(Sessions)
=============================================================================
