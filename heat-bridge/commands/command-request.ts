/** Types of requests for runs of named commands, and of their results. */

import Type, { type Static } from 'typebox';
import type { Subject } from '#acl';
import type { TargetRequest } from '#master';
import type { WireValue } from '#minion-protocol';
import { Texts } from '#store';
import type { Parameters } from './parameters.ts';

/**
 * Caller of a command: a subject that the program has authenticated itself, or a token that the
 * master has issued. `local` is the user of the local socket; no rules apply to this user.
 */
export type CommandCaller = Subject | { readonly token: string } | 'local';

/**
 * Target of a command: a glob on ids, a list of ids, or any target that the master supports. If the
 * facts of a minion are unknown, so that it is uncertain whether the minion matches, the minion
 * does not receive the command.
 */
export type CommandTarget = string | readonly string[] | TargetRequest;

/** Converts the target of a command to a target of the master. */
export function targetOf(target: CommandTarget): TargetRequest {
  if (typeof target === 'string') return { tgt: target };
  return 'tgt' in target ? target : { tgt: target, tgtType: 'list' };
}

/** Request for a run of a named command. */
export interface CommandRequest<P = Parameters> {
  readonly target: CommandTarget;
  /** Parameters. Default: none. */
  readonly params?: P;
  /** Caller. Default: the service that is configured in `createBridge`. */
  readonly caller?: CommandCaller;
  /**
   * Project of the request. Each project has its own idempotency keys. With a Keystone token, it
   * must be the project of the token. Default: none.
   */
  readonly project?: string;
  /**
   * Idempotency key, 1 to 255 characters. A repeated request with the same key, caller, project and
   * command returns the same run.
   */
  readonly idempotencyKey?: string;
  /** Deadline, as milliseconds since 1970 or a `Date`. Default: now plus the command's timeout. */
  readonly deadline?: Date | number;
  /** Abort this signal to cancel the run. */
  readonly signal?: AbortSignal;
}

const Text = Type.String();

/** Result of a command on a minion. */
export const ResultSchema = Type.Object({
  minion: Text,
  /**
   * State. `silent`: the minion did not respond. `reconnecting`: after a restart of the master, the
   * minion did not reconnect in time. `unfinished`: the run ended before the minion returned.
   * `unaddressed`: the target lists this name, but it has no accepted key, or the caller has no
   * rights on it.
   */
  state: Type.Enum(['succeeded', 'failed', 'silent', 'reconnecting', 'unfinished', 'unaddressed']),
  return: Type.Optional(Type.Unsafe<WireValue>(Type.Unknown())),
  /** Retcode, usually a number. Minions may send other values. */
  retcode: Type.Optional(Type.Unsafe<WireValue>(Type.Unknown())),
  /** Reason for the state, in human-readable form. */
  reason: Type.Optional(Text),
});

/** Result of a command on a minion; {@link ResultSchema} documents its fields. */
export type CommandResult = Readonly<Static<typeof ResultSchema>>;

/** Outcome of a run. */
export const OutcomeSchema = Type.Object({
  id: Text,
  command: Text,
  /**
   * Status of the run. `interrupted`: the master ended during the run, so `results` contains only
   * the results that had arrived.
   */
  status: Type.Enum(['succeeded', 'failed', 'timeout', 'cancelled', 'interrupted']),
  results: Type.Unsafe<readonly CommandResult[]>(Type.Array(ResultSchema)),
  /** Ids of the published jobs. */
  jids: Texts,
  /** `true` if the caller's rights excluded minions from the target. Otherwise absent. */
  isNarrowed: Type.Optional(Type.Literal(true)),
});

/** Outcome of a run; {@link OutcomeSchema} documents its fields. */
export type CommandOutcome = Readonly<Static<typeof OutcomeSchema>>;

const jobFields = { jid: Text, minions: Texts };

/** Schemas of the updates of a run. The last update is the `outcome`. */
export const commandUpdates = [
  Type.Object({ type: Type.Literal('published'), ...jobFields }),
  Type.Object({ type: Type.Literal('running'), ...jobFields }),
  /** Result of a minion. If the command is retried on the minion, another result follows. */
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

/** Update of a run. The last update is the `outcome`. */
export type CommandUpdate = Readonly<Static<(typeof commandUpdates)[number]>>;

/** Handle of a run that was started, or that already existed under the idempotency key. */
export interface CommandHandle {
  /** Id of the run, which is the id of its first job. */
  readonly id: string;
  readonly command: string;
  readonly minions: readonly string[];
  /**
   * Names in the target's list that do not receive the command. A name is listed here if it has no
   * accepted key, or if the caller has no rights on it. Each has a result with the state
   * `unaddressed`.
   */
  readonly missing: readonly string[];
  /** Whether the run already existed under the idempotency key. */
  readonly isRepeated: boolean;
  /**
   * Outcome of the run. The promise resolves even if the command fails on minions. It rejects only
   * after an internal error of the master.
   */
  readonly outcome: Promise<CommandOutcome>;
  /** Returns all updates, from the start of the run. Can be called several times. */
  updates(): AsyncIterable<CommandUpdate>;
  /** Cancels the run, and asks the minions to terminate the job. */
  cancel(): Promise<void>;
}
