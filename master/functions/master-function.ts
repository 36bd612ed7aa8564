/** Runners and wheel functions, as the master calls them. */

import type { WireMap, WireValue } from '#minion-protocol';
import type { AuditRequester } from '../api/index.ts';

/** A call, as it was asked for. */
export interface AskedCall {
  readonly fun: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** What a function may know of the call that it serves. */
export interface CallContext {
  readonly asked: AskedCall;
  readonly jid: string;
  /** Who asked: an operator's name, or a minion's id. */
  readonly user: string;
  /** Who asked, and what permitted it, for the audit log; `undefined`: the local interface. */
  readonly by: AuditRequester | undefined;
  /** How long minions have to answer; `undefined`: the master's own. */
  readonly timeoutSeconds: number | undefined;
  /** Fires `<prefix>/<jid>/<suffix>`, for instance to tell how far it is. */
  readonly tell: (suffix: string, data: WireMap) => void;
  /** The master is being closed. */
  readonly closing: AbortSignal;
  /** Another member of the cluster goes on with it: what it returns is told to the caller alone. */
  readonly goesOnElsewhere: () => void;
  /** Calls this when its end was told, and is among the jobs. */
  readonly atEnd: (work: () => Promise<void>) => void;
}

/** A runner or wheel function. */
export interface MasterFunction {
  readonly summary: string;
  /** For instance `jid, returned=True`. */
  readonly signature: string;
  /** Whether it takes a keyword of this name. */
  readonly takes: (name: string) => boolean;
  /** Whether it has a parameter of this name, and does not only take whatever it is given. */
  readonly declares: (name: string) => boolean;
  /** Whether arguments and result are for the caller alone: in no event, stored job or audit record. */
  readonly isConfidential: boolean;
  /** Whether a returned value is a success. */
  readonly succeeds: (value: WireValue) => boolean;
  /** Checks the arguments. @throws MasterError ERR_ARGS */
  readonly bind: (arg: readonly WireValue[], kwarg: Readonly<WireMap>) => BoundCall;
}

/** A function with arguments that fit. */
export type BoundCall = (context: CallContext) => Promise<WireValue>;
