/** A call of a named command, and its results. */

import Type, { type Static } from 'typebox';
import type { Subject } from '#acl';
import type { TargetRequest } from '#master';
import type { WireValue } from '#minion-protocol';
import { Texts } from '#store';
import type { Parameters } from './parameters.ts';

/**
 * Who asks: somebody whom the program vouches for, whoever has a token of the master's, or `local`:
 * whoever may use the master's own interface, which no rule is asked about.
 */
export type CommandCaller = Subject | { readonly token: string } | 'local';

/** A glob on ids, a list of ids, or any target. It means those that match for certain. */
export type CommandTarget = string | readonly string[] | TargetRequest;

/** As a target of the master's. */
export function targetOf(target: CommandTarget): TargetRequest {
  if (typeof target === 'string') return { tgt: target };
  return 'tgt' in target ? target : { tgt: target, tgtType: 'list' };
}

/** A call of a named command. */
export interface CommandRequest<P = Parameters> {
  readonly target: CommandTarget;
  /** Default: none. */
  readonly params?: P;
  /** Default: the service that `createBridge` was given. */
  readonly caller?: CommandCaller;
  /**
   * Of the caller's: keys of one project say nothing in another. Whoever comes with a token of
   * Keystone's has that token's project and no other. Default: none.
   */
  readonly project?: string;
  /**
   * The same key again, by the same caller for the same project and command, is the same run.
   * 1 to 255 characters.
   */
  readonly idempotencyKey?: string;
  /** Milliseconds since 1970, or a time. Default: the command's timeout from now on. */
  readonly deadline?: Date | number;
  /** Ends the run as {@link CommandHandle.cancel} does. */
  readonly signal?: AbortSignal;
}

const Text = Type.String();

/** Result of a command at a minion. */
export const ResultSchema = Type.Object({
  minion: Text,
  /**
   * `silent`: it did not answer; `reconnecting`: it had not come back from a restart of the master
   * in time; `unfinished`: the run ended before it did; `unaddressed`: the target lists this name,
   * and it has no accepted key or the caller has no right to it.
   */
  state: Type.Enum(['succeeded', 'failed', 'silent', 'reconnecting', 'unfinished', 'unaddressed']),
  return: Type.Optional(Type.Unsafe<WireValue>(Type.Unknown())),
  /** A number, except for a minion that sends something else. */
  retcode: Type.Optional(Type.Unsafe<WireValue>(Type.Unknown())),
  /** For a person. */
  reason: Type.Optional(Text),
});

/** Result of a command at a minion; {@link ResultSchema} documents its fields. */
export type CommandResult = Readonly<Static<typeof ResultSchema>>;

/** Outcome of a run. */
export const OutcomeSchema = Type.Object({
  id: Text,
  command: Text,
  /** `interrupted`: the master ended meanwhile; what is known of its minions is in `results`. */
  status: Type.Enum(['succeeded', 'failed', 'timeout', 'cancelled', 'interrupted']),
  results: Type.Unsafe<readonly CommandResult[]>(Type.Array(ResultSchema)),
  /** The jobs that were published for it. */
  jids: Texts,
  /** Present if the caller's rights limited the target to minions that they name. */
  isNarrowed: Type.Optional(Type.Literal(true)),
});

/** Outcome of a run; {@link OutcomeSchema} documents its fields. */
export type CommandOutcome = Readonly<Static<typeof OutcomeSchema>>;

const jobFields = { jid: Text, minions: Texts };

/** Updates of a run while it is under way; `outcome` is last. */
export const commandUpdates = [
  Type.Object({ type: Type.Literal('published'), ...jobFields }),
  Type.Object({ type: Type.Literal('running'), ...jobFields }),
  /** May come again for a minion that is tried again. */
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

/** An update of a run while it is under way; `outcome` is last. */
export type CommandUpdate = Readonly<Static<(typeof commandUpdates)[number]>>;

/** A run that was begun, or was there before under the same key. */
export interface CommandHandle {
  /** A job id: that of its first job. */
  readonly id: string;
  readonly command: string;
  readonly minions: readonly string[];
  /** Names in the target that the command is not sent to; their results are `unaddressed`. */
  readonly missing: readonly string[];
  /** Whether the key was used before, and this is that run. */
  readonly isRepeated: boolean;
  /** What a minion does ends in a result and not in an error. Rejects where the master fails. */
  readonly outcome: Promise<CommandOutcome>;
  /** From the beginning, to any number of readers. */
  updates(): AsyncIterable<CommandUpdate>;
  /** Waits for nobody any more, and asks the minions to end the job. */
  cancel(): Promise<void>;
}
