import type { WireMap, WireValue } from '#minion-protocol';
import type { AuditRequester } from '../api/index.ts';

/** Function call with the arguments that the caller sent. */
export interface AskedCall {
  readonly fun: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** Information and callbacks for the function that serves a call. */
export interface CallContext {
  readonly asked: AskedCall;
  readonly jid: string;
  /** Name of the operator or id of the minion that called. */
  readonly user: string;
  /** Requester and permitting rule, for the audit log. `undefined` for the local interface. */
  readonly by: AuditRequester | undefined;
  /** Time that minions have to respond, in seconds. `undefined`: the master's default. */
  readonly timeoutSeconds: number | undefined;
  /** Emits `<prefix>/<jid>/<suffix>`, for instance to report progress. */
  readonly tell: (suffix: string, data: WireMap) => void;
  /** Fires when the master closes. */
  readonly closing: AbortSignal;
  /**
   * Marks the call as continued by another member of the cluster. Its return value then reaches
   * only the caller.
   */
  readonly goesOnElsewhere: () => void;
  /** Registers an action to run after the end was reported and the call was stored. */
  readonly atEnd: (work: () => Promise<void>) => void;
}

/** Runner or wheel function. */
export interface MasterFunction {
  readonly summary: string;
  /** Signature for the documentation, for instance `jid, returned=True`. */
  readonly signature: string;
  /** Returns whether the function accepts a keyword of this name. */
  readonly takes: (name: string) => boolean;
  /**
   * Returns whether the function declares a parameter of this name. Accepting arbitrary keywords
   * does not count.
   */
  readonly declares: (name: string) => boolean;
  /**
   * Whether arguments and result are visible to the caller only: in no event, stored job or audit
   * record.
   */
  readonly isConfidential: boolean;
  /** Returns whether a return value is a success. */
  readonly succeeds: (value: WireValue) => boolean;
  /**
   * Checks the arguments and binds them.
   * @throws MasterError ERR_ARGS
   */
  readonly bind: (arg: readonly WireValue[], kwarg: Readonly<WireMap>) => BoundCall;
}

/** Function with checked arguments. */
export type BoundCall = (context: CallContext) => Promise<WireValue>;
