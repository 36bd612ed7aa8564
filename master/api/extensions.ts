import type { TSchema } from 'typebox';
import type { Subject } from '../../acl/index.ts';
import type { WireValue } from '../../minion-protocol/index.ts';
import type { AuditRequester } from './audit.ts';
import type { TargetRequest } from './jobs.ts';
import type { MasterApi } from './master-api.ts';
import type { ReactionOutcome } from './reactions.ts';

/** Named commands, which reactions may call. */
export interface NamedCommands {
  /**
   * Calls one, to its end, as far as rules permit it to the caller. What cannot be done is an
   * outcome.
   * @param deadline ends the wait, not the work
   */
  run(call: NamedCall, deadline: AbortSignal): Promise<ReactionResult>;
}

/** A named command that a reaction calls. */
export interface NamedCall {
  /** Of its first job. The same again is the same call. */
  readonly jid: string;
  /** The reaction, as rules name it. */
  readonly caller: Subject;
  readonly command: string;
  readonly target: TargetRequest;
  readonly params: Readonly<Record<string, WireValue>>;
}

/** A method as the server sees it: parameters from outside, checked before the call. */
export interface RpcMethod {
  /** What it takes. */
  readonly parameters: TSchema;
  /** Its stream waits for no reader: one for whom too much waits is ended. Default false. */
  readonly isLive?: boolean;
  /** Says what is wrong with the parameters, or `undefined` if nothing is. */
  readonly complaint: (parameters: unknown) => string | undefined;
  /** One value, or a stream; a promise of a stream is one, too. */
  readonly invoke: (
    api: MasterApi,
    parameters: unknown,
    signal: AbortSignal,
    by?: AuditRequester,
  ) => Promise<unknown> | AsyncIterable<unknown>;
}

/** What became of a run, and why. */
export interface ReactionResult {
  readonly outcome: ReactionOutcome;
  /** For a person. */
  readonly reason?: string;
}
