/** Request for a run of a named command, and its results. */

import Type, { type Static } from 'typebox';
import type { Subject } from '#acl';
import type { TargetRequest } from '#master';
import type { WireValue } from '#minion-protocol';
import { Texts } from '#store';
import type { Parameters } from './parameters.ts';

/**
 * Caller: a subject for which the program vouches, the holder of a token of the master, or
 * `local`, a user of the master's own interface to whom no rule applies.
 */
export type CommandCaller = Subject | { readonly token: string } | 'local';

/**
 * Target: a glob on ids, a list of ids, or any target of the master. It matches only minions that
 * match for certain.
 */
export type CommandTarget = string | readonly string[] | TargetRequest;

/** Converts to a target of the master. */
export function targetOf(target: CommandTarget): TargetRequest {
  if (typeof target === 'string') return { tgt: target };
  return 'tgt' in target ? target : { tgt: target, tgtType: 'list' };
}

/** Request for a run of a named command. */
export interface CommandRequest<P = Parameters> {
  readonly target: CommandTarget;
  /** Parameters. Default: none. */
  readonly params?: P;
  /** Caller. Default: the service that `createBridge` was given. */
  readonly caller?: CommandCaller;
  /**
   * Project of the request. Idempotency keys are separate for each project. For a Keystone token,
   * it must be the token's project. Default: none.
   */
  readonly project?: string;
  /**
   * Idempotency key, 1 to 255 characters. Repeating a key with the same caller, project and
   * command returns the same run.
   */
  readonly idempotencyKey?: string;
  /** Deadline, as milliseconds since 1970 or a `Date`. Default: the command's timeout from now. */
  readonly deadline?: Date | number;
  /** Cancels the run, like {@link CommandHandle.cancel}. */
  readonly signal?: AbortSignal;
}

const Text = Type.String();

/** Result of a command on a minion. */
export const ResultSchema = Type.Object({
  minion: Text,
  /**
   * State. `silent`: no response; `reconnecting`: the minion did not reconnect in time after a
   * restart of the master; `unfinished`: the run ended first; `unaddressed`: the target lists this
   * name, but it has no accepted key or the caller has no rights on it.
   */
  state: Type.Enum(['succeeded', 'failed', 'silent', 'reconnecting', 'unfinished', 'unaddressed']),
  return: Type.Optional(Type.Unsafe<WireValue>(Type.Unknown())),
  /** Retcode, usually a number. Minions may send other values. */
  retcode: Type.Optional(Type.Unsafe<WireValue>(Type.Unknown())),
  /** Reason of the state, human-readable. */
  reason: Type.Optional(Text),
});

/** Result of a command on a minion; {@link ResultSchema} documents its fields. */
export type CommandResult = Readonly<Static<typeof ResultSchema>>;

/** Outcome of a run. */
export const OutcomeSchema = Type.Object({
  id: Text,
  command: Text,
  /**
   * Status. `interrupted`: the master ended during the run; `results` has the results until then.
   */
  status: Type.Enum(['succeeded', 'failed', 'timeout', 'cancelled', 'interrupted']),
  results: Type.Unsafe<readonly CommandResult[]>(Type.Array(ResultSchema)),
  /** Ids of the published jobs. */
  jids: Texts,
  /** Set if the caller's rights limited the target. */
  isNarrowed: Type.Optional(Type.Literal(true)),
});

/** Outcome of a run; {@link OutcomeSchema} documents its fields. */
export type CommandOutcome = Readonly<Static<typeof OutcomeSchema>>;

const jobFields = { jid: Text, minions: Texts };

/** Schemas of the updates of a run; `outcome` is last. */
export const commandUpdates = [
  Type.Object({ type: Type.Literal('published'), ...jobFields }),
  Type.Object({ type: Type.Literal('running'), ...jobFields }),
  /** Result of a minion. Repeated if the minion is retried. */
  Type.Object({
    type: Type.Literal('result'),
    jid: Text,
    result: Type.Unsafe<CommandResult>(ResultSchema),
  }),
  Type.Object({
    type: Type.Literal('outcome'),
    outcome: Type.Unsafe<CommandOutcome>(OutcomeSchema),
  }),
];

/** Update of a run; `outcome` is last. */
export type CommandUpdate = Readonly<Static<(typeof commandUpdates)[number]>>;

/** Run that was started, or that exists under the same idempotency key. */
export interface CommandHandle {
  /** Id of the run, which is the id of its first job. */
  readonly id: string;
  readonly command: string;
  readonly minions: readonly string[];
  /** Names in the target to which the command is not sent. Their results are `unaddressed`. */
  readonly missing: readonly string[];
  /** Whether the run existed under the same key. */
  readonly isRepeated: boolean;
  /**
   * Outcome. Failures of minions are results. Rejects only after an internal error of the master.
   */
  readonly outcome: Promise<CommandOutcome>;
  /** Returns the updates from the start. It can be called any number of times. */
  updates(): AsyncIterable<CommandUpdate>;
  /** Cancels the run, and asks the minions to terminate the job. */
  cancel(): Promise<void>;
}
