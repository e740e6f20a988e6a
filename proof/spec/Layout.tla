------------------------------ MODULE Layout ------------------------------
(***************************************************************************)
(* The layout of a pool's IDs: agents choose it, operators correct it, and *)
(* the reaper marks it as final.                                           *)
(*                                                                         *)
(* Promised: all IDs of a pool have one layout, which is the one in the    *)
(* pool's item, or the previous one while an operator checks for claims.   *)
(*                                                                         *)
(* Writes of the pool's item are delivered at any time, in any order,      *)
(* again and again. A claim is a step: its answer comes after it landed,   *)
(* and the version that it counts never goes back. A check for claims is   *)
(* also one step: it finds at least the claims from before it began.       *)
(***************************************************************************)
EXTENDS Integers, TLC

CONSTANTS
  Agents, Operators,
  Old,          \* those of the operators whose release does not know the mark
  MarkAnytime,  \* the reaper marks without having seen a claim
  MaxRevision,
  Mutant        \* "none", or the name of the weakened line

VARIABLES
  item,     \* the pool's item: [layout, before, final, revision]
  claimed,  \* agents that have claimed a node ID, ever
  sent,     \* every write of the pool's item that was ever sent
  view,     \* what each operator and the reaper read last
  clean,    \* and the result of a check for claims since then
  me        \* agent -> [read, held, uses]: the item as last read, and the layout of its IDs

vars == <<item, claimed, sent, view, clean, me>>

None == "none"
Weak(m) == Mutant = m
Layouts == {"L1", "L2"}
Reaper == "reaper"
Admins == Operators \cup {Reaper}

Init == /\ item \in [layout : {None, "L1"}, before : {None}, final : {FALSE}, revision : {1}]
        /\ claimed = {} /\ sent = {}
        /\ view = [o \in Admins |-> item]
        /\ clean = [o \in Admins |-> "unknown"]
        /\ me = [a \in Agents |-> [read |-> item, held |-> FALSE, uses |-> None]]

----------------------------------------------------------------------------
(* Operators and the reaper *)

Look(o) ==
  /\ view' = [view EXCEPT ![o] = item]
  /\ clean' = [clean EXCEPT ![o] = IF Weak("replace-unswept") /\ o # Reaper THEN @ ELSE "unknown"]
  /\ UNCHANGED <<item, claimed, sent, me>>

Sweep(o) ==
  /\ clean' = [clean EXCEPT ![o] = IF claimed = {} THEN "yes" ELSE "no"]
  /\ UNCHANGED <<item, claimed, sent, view, me>>

Send(w) == sent' = sent \cup {w} /\ UNCHANGED <<item, claimed, view, clean, me>>

TrySuspend(o) ==
  /\ view[o].layout # None /\ clean[o] = "yes"
  /\ o \in Old \/ ~view[o].final
  /\ Send([type |-> "suspend", revision |-> view[o].revision, to |-> None, old |-> o \in Old])

(* If a claim was found, the previous layout is restored. *)
TryReplace(o) ==
  /\ view[o].before # None /\ clean[o] # "unknown"
  /\ \E to \in IF clean[o] = "yes" THEN Layouts ELSE {view[o].before} :
       Send([type |-> "replace", revision |-> view[o].revision, to |-> to, old |-> o \in Old])

(* By a seed, or by an operator of a pool without a layout. *)
TryBind ==
  /\ item.layout = None /\ item.before = None
  /\ \E to \in Layouts : Send([type |-> "bind", revision |-> 0, to |-> to, old |-> FALSE])

TryFinalize ==
  /\ view[Reaper].layout # None
  /\ MarkAnytime \/ clean[Reaper] = "no" \/ Weak("finalize-unclaimed")
  /\ Send([type |-> "finalize", revision |-> view[Reaper].revision, to |-> None, old |-> FALSE])

----------------------------------------------------------------------------
(* An agent *)

(* At its start, and again once it is about to make IDs. *)
ReadPool(a) ==
  /\ me[a].read # item
  /\ me' = [me EXCEPT ![a].read = item]
  /\ UNCHANGED <<item, claimed, sent, view, clean>>

(* A layout read before the claim no longer counts, unless it is final. *)
Claim(a) ==
  /\ ~me[a].held
  /\ claimed' = claimed \cup {a}
  /\ LET r == me[a].read
         trusted == r.final \/ Weak("trust-unmarked")
     IN me' = [me EXCEPT ![a].held = TRUE,
                         ![a].uses = IF trusted /\ r.before = None THEN r.layout ELSE None]
  /\ UNCHANGED <<item, sent, view, clean>>

(* BindLayout of leasepool, of the item as it is after the claim. *)
Use(a) ==
  /\ me[a].held /\ me[a].uses = None
  /\ IF item.layout = None
     THEN /\ item.before = None
          /\ \E to \in Layouts : Send([type |-> "bind", revision |-> 0, to |-> to, old |-> FALSE])
     ELSE /\ me' = [me EXCEPT ![a].uses = item.layout]
          /\ UNCHANGED <<item, claimed, sent, view, clean>>

----------------------------------------------------------------------------
(* The table *)

Put(layout, before, final) ==
  item' = [layout |-> layout, before |-> before, final |-> final, revision |-> item.revision + 1]

Pinned(w) == w.revision = item.revision

MayBind(w) == /\ item.layout = None \/ Weak("bind-twice")
              /\ item.before = None \/ Weak("bind-suspended")
MaySuspend(w) == /\ Pinned(w)
                 /\ item.layout # None
                 /\ w.old \/ ~item.final
MayReplace(w) == /\ Pinned(w) \/ Weak("replace-unpinned")
                 /\ item.before # None
MayFinalize(w) == /\ Pinned(w)
                  /\ item.layout # None
                  /\ ~item.final

Deliver(w) ==
  /\ item.revision < MaxRevision
  /\ CASE w.type = "bind"     -> MayBind(w) /\ Put(w.to, None, item.final)
       [] w.type = "suspend"  -> MaySuspend(w) /\ Put(None, item.layout, item.final)
       [] w.type = "replace"  -> MayReplace(w) /\ Put(w.to, None, item.final)
       [] w.type = "finalize" -> MayFinalize(w) /\ Put(item.layout, item.before, TRUE)
  /\ UNCHANGED <<claimed, sent, view, clean, me>>

----------------------------------------------------------------------------
Next ==
  \/ \E o \in Admins : Look(o) \/ Sweep(o)
  \/ \E o \in Operators : TrySuspend(o) \/ TryReplace(o)
  \/ TryBind \/ TryFinalize
  \/ \E a \in Agents : ReadPool(a) \/ Claim(a) \/ Use(a)
  \/ \E w \in sent : Deliver(w)

Spec == Init /\ [][Next]_vars

(* All IDs have one layout, and it is the pool's. *)
OneLayout == \A a \in Agents : me[a].uses \in {None, item.layout, item.before}

(* A layout that was read as final never changes. *)
Final == \A a \in Agents : LET r == me[a].read
                           IN r.final /\ r.layout # None => r.layout \in {item.layout, item.before}

(* Reachability: each of these must be violated. *)
NeverTrusted == \A a \in Agents : ~(me[a].uses # None /\ me[a].read.final)
NeverCorrected == \A w \in sent : ~(w.type = "replace" /\ w.to = "L2" /\ item.layout = "L2" /\ item.revision = w.revision + 1)

Symmetry == Permutations(Agents) \cup Permutations(Operators)
=============================================================================
