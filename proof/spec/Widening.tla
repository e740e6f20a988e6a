------------------------------ MODULE Widening ------------------------------
(***************************************************************************)
(* The node bits are widened by one while the fleet makes IDs.             *)
(*                                                                         *)
(* An ID is a millisecond and two low bits. Narrow: a burst bit above one  *)
(* node bit, for the node IDs 0 and 1. Wide: two node bits, for 0 to 3.    *)
(* So node ID 0 with burst 1 in the narrow layout is the same integer as   *)
(* node ID 2 in the wide one, if both are of one millisecond.              *)
(*                                                                         *)
(* Promised: no two equal integers, and every ID is decoded correctly with *)
(* the history in the pool's item.                                         *)
(*                                                                         *)
(* No clock is trusted: spans and effective milliseconds are chosen        *)
(* arbitrarily. Requests and marks are delivered at any time,              *)
(* in any order, again and again. There is any number of wideners:         *)
(* a mark that one has seen counts for all. IDs are recorded of a single   *)
(* millisecond only, `moment`, which is chosen at the start and may be any.*)
(***************************************************************************)
EXTENDS Integers, TLC

CONSTANTS
  Sessions, Narrow, Wide,   \* holders; node IDs of the pool; node IDs that it grows by
  End,                      \* milliseconds are 1 .. End
  MaxTry,                   \* widening tries
  MaxRenewals,              \* of one session
  Mutant                    \* "none", or the name of the weakened line

VARIABLES
  moment,   \* the one millisecond whose IDs are recorded
  pool,     \* the pool's item: [try, from, state]
  exist,  \* and its narrow node IDs, exist_below: those that exist or may be created
  begun,    \* try -> its effective millisecond; 0: not begun
  need,     \* try -> the node IDs to be marked: those of the item in which it is open
  marked,   \* try -> node IDs whose mark a widener has seen
  item,     \* node ID -> its lease
  sent,     \* every claim and renewal that was ever sent
  me,       \* the knowledge of each session
  made      \* the IDs of `moment`

vars == <<moment, pool, exist, begun, need, marked, item, sent, me, made>>

None == "none"
Weak(m) == Mutant = m
Max(a, b) == IF a > b THEN a ELSE b
Tries == 1..MaxTry
Fresh(ru, layout) ==
  [there |-> TRUE, version |-> 0, holder |-> None, renewal |-> 0, ru |-> ru, layout |-> layout]
Missing == [Fresh(0, 0) EXCEPT !.there = FALSE]

(* Node ID 0 is seeded. Node ID 1 also belongs to the pool, or is added, and its seed is late. *)
Init == /\ exist \in {{0}, Narrow}
        /\ moment \in 1..End
        /\ pool = [try |-> 0, from |-> 0, state |-> "void"]
        /\ begun = [k \in Tries |-> 0]
        /\ need = [k \in Tries |-> {}]
        /\ marked = [k \in Tries |-> {}]
        /\ item = [n \in Narrow \cup Wide |-> IF n = 0 THEN Fresh(0, 0) ELSE Missing]
        /\ sent = {} /\ made = {}
        /\ me = [h \in Sessions |-> [state |-> "idle", n |-> 0, v |-> 0, nb |-> 0, conf |-> 0,
                                     asked |-> 0, sent |-> 0, view |-> pool]]

----------------------------------------------------------------------------
(* The widener *)

(* begin: a new try makes the previous one void. *)
Begin ==
  /\ pool.try < MaxTry
  /\ pool.state # "done" \/ Weak("begin-after-done")
  /\ \E e \in 1..End : /\ pool' = [try |-> pool.try + 1, from |-> e, state |-> "open"]
                       /\ begun' = [begun EXCEPT ![pool.try + 1] = e]
  /\ need' = [need EXCEPT ![pool.try + 1] = IF Weak("begin-stale") THEN {0} ELSE exist]
  /\ UNCHANGED <<moment, exist, marked, item, sent, me, made>>

(* void: by a widener that met a later reserved_until, or by a holder that the cap stops. *)
Void ==
  /\ pool.state = "open" \/ (Weak("void-done") /\ pool.state = "done")
  /\ pool' = [pool EXCEPT !.state = "void"]
  /\ UNCHANGED <<moment, exist, begun, need, marked, item, sent, me, made>>

(* mark: node ID n for try k, delivered at any time after the try began. *)
Mark(k, n) ==
  LET i == item[n]
      may == /\ i.ru < begun[k]  \/ Weak("mark-ignores-reserved")
             /\ i.layout < k     \/ Weak("mark-any-order")
  IN /\ begun[k] # 0
     /\ IF ~i.there
        THEN item' = IF Weak("missing-skipped") THEN item ELSE [item EXCEPT ![n] = Fresh(0, k)]
        ELSE may /\ item' = [item EXCEPT ![n].layout = k]
     /\ marked' = [marked EXCEPT ![k] = @ \cup {n}]
     /\ UNCHANGED <<moment, exist, pool, begun, need, sent, me, made>>

(* commit: only this makes the effective millisecond final. *)
Commit(k) ==
  /\ begun[k] # 0
  /\ marked[k] = need[k]    \/ Weak("commit-unmarked")
  /\ pool.try = k           \/ Weak("commit-unpinned")
  /\ pool.state = "open"    \/ (Weak("commit-void") /\ pool.state = "void")
  /\ pool' = [pool EXCEPT !.from = begun[k], !.state = "done"]
  /\ UNCHANGED <<moment, exist, begun, need, marked, item, sent, me, made>>

(* AddNodeIDs.Apply, by a resize: none are added while a try is open, so the item in which a    *)
(* try was seen open has all that need its mark. Those added after the commit are like wider ones. *)
AddNarrow ==
  /\ exist # Narrow
  /\ pool.state = "void" \/ (Weak("add-while-open") /\ pool.state = "open")
  /\ exist' = Narrow
  /\ UNCHANGED <<moment, pool, begun, need, marked, item, sent, me, made>>

(* Seed.Apply, of a node ID that the pool has: it may be very late. *)
SeedNarrow(n) ==
  /\ ~item[n].there
  /\ n \in exist
  /\ item' = [item EXCEPT ![n] = Fresh(0, 0)]
  /\ UNCHANGED <<moment, exist, pool, begun, need, marked, sent, me, made>>

(* Seed.Apply, of a wider node ID: only after the commit. *)
SeedWide(n) ==
  /\ ~item[n].there
  /\ pool.state = "done" \/ (Weak("seed-early") /\ pool.state = "open")
  /\ item' = [item EXCEPT ![n] = Fresh(IF Weak("seed-wide-low") THEN 0 ELSE pool.from,
                                       IF Weak("seed-wide-unmarked") THEN 0 ELSE pool.try)]
  /\ UNCHANGED <<moment, exist, pool, begun, need, marked, sent, me, made>>

----------------------------------------------------------------------------
(* A session *)

(* While a try is open no session requests its effective millisecond or anything later. *)
Cap(view) == IF view.state = "open" /\ ~Weak("no-cap") THEN view.from - 1 ELSE End

(* The pool's item is read: before a claim, after a refusal for its layout, or at any time. *)
ReadPool(h) ==
  /\ me[h].view # pool
  /\ me' = [me EXCEPT ![h].view = pool]
  /\ UNCHANGED <<moment, exist, pool, begun, need, marked, item, sent, made>>

TryClaim(h) ==
  /\ me[h].state = "idle"
  /\ \E n \in Narrow \cup Wide, r \in 1..Cap(me[h].view) :
       /\ sent' = sent \cup {[type |-> "claim", by |-> h, n |-> n, v |-> 0, s |-> 0, ru |-> r,
                              known |-> me[h].view.try]}
       /\ me' = [me EXCEPT ![h].state = "claiming", ![h].n = n]
  /\ UNCHANGED <<moment, exist, pool, begun, need, marked, item, made>>

(* term.attempt: not below any earlier request, and below the cap; if the cap is lower than     *)
(* that, no renewal until the try is committed or void.                                         *)
TryRenew(h) ==
  /\ me[h].state = "held" /\ me[h].sent < MaxRenewals
  /\ \E r \in (IF Weak("cap-lowers") THEN 1 ELSE me[h].asked)..Cap(me[h].view) :
       /\ sent' = sent \cup {[type |-> "renew", by |-> h, n |-> me[h].n, v |-> me[h].v,
                              s |-> me[h].sent + 1, ru |-> r, known |-> me[h].view.try]}
       /\ me' = [me EXCEPT ![h].sent = @ + 1, ![h].asked = Max(@, r)]
  /\ UNCHANGED <<moment, exist, pool, begun, need, marked, item, made>>

(* Claim.Apply. A claim never lowers reserved_until, whatever the cap: that is `ru < q.ru`. *)
Claim(q) ==
  LET i == item[q.n]
  IN /\ i.there
     /\ i.layout <= q.known \/ Weak("claim-any-layout")
     /\ i.ru < q.ru         \/ Weak("claim-lowers")
     /\ item' = [item EXCEPT ![q.n] = [@ EXCEPT !.holder = q.by, !.version = @ + 1,
                                                !.renewal = 0, !.ru = q.ru]]
     /\ me' = [me EXCEPT ![q.by] = [@ EXCEPT !.state = "held", !.v = i.version + 1, !.nb = i.ru,
                                             !.conf = q.ru, !.asked = q.ru]]

(* Renew.Apply. A refusal whose ALL_OLD has this version and an older renewal is one for the    *)
(* layout: nothing landed.                                                                      *)
Renew(q) ==
  LET i == item[q.n]
      mine == i.holder = q.by /\ i.version = q.v /\ i.renewal < q.s
  IN /\ mine
     /\ IF i.layout <= q.known \/ Weak("renew-any-layout")
        THEN /\ item' = [item EXCEPT ![q.n].renewal = q.s, ![q.n].ru = q.ru]
             /\ me' = [me EXCEPT ![q.by].conf = Max(@, q.ru)]
        ELSE /\ Weak("refused-taken-for-landed")
             /\ me' = [me EXCEPT ![q.by].conf = Max(@, q.ru)]
             /\ UNCHANGED item

(* The answer arrives as the write lands: a session that gets it later, or never, can do less. *)
Deliver(q) ==
  /\ IF q.type = "claim" THEN Claim(q) ELSE Renew(q)
  /\ UNCHANGED <<moment, exist, pool, begun, need, marked, sent, made>>

(* Generator.Next: an ID of `moment`, in the layout that the session believes in. *)
Stamp(h) ==
  LET n == me[h].n
      wide == me[h].view.state = "done" /\ moment >= me[h].view.from
  IN /\ me[h].state = "held" /\ me[h].nb < moment /\ moment <= me[h].conf
     /\ \E burst \in IF wide THEN {0} ELSE {0, 1} :
          made' = made \cup {[id |-> IF wide THEN n ELSE (2 * burst + n) % 4, n |-> n, by |-> h,
                              wide |-> wide]}
     /\ UNCHANGED <<moment, exist, pool, begun, need, marked, item, sent, me>>

----------------------------------------------------------------------------
Next ==
  \/ Begin \/ Void \/ AddNarrow
  \/ \E k \in Tries : Commit(k) \/ \E n \in need[k] : Mark(k, n)
  \/ \E n \in Narrow : SeedNarrow(n)
  \/ \E n \in Wide : SeedWide(n)
  \/ \E h \in Sessions : ReadPool(h) \/ TryClaim(h) \/ TryRenew(h) \/ Stamp(h)
  \/ \E q \in sent : Deliver(q)

Spec == Init /\ [][Next]_vars

(* No two equal integers. *)
NoTwins == \A x, y \in made : x.id = y.id => x = y

(* Decoded with the history in the pool's item, an ID shows its maker. *)
Decoded == LET wide == pool.state = "done" /\ moment >= pool.from
           IN \A x \in made : x.wide = wide /\ x.n = IF wide THEN x.id ELSE x.id % 2

(* Reachability: each of these must be violated. *)
NeverWide == \A x \in made : ~x.wide
NeverSecondTryDone == ~(pool.try = 2 /\ pool.state = "done")
NeverCapped == \A h \in Sessions : me[h].state = "held" => Cap(me[h].view) >= me[h].asked

Symmetry == Permutations(Sessions)
=============================================================================
