/**
 * What a program adds to a master from outside this room: something that keeps state of its own,
 * takes signals, gives pillar, and has methods at the local socket. `saltbridge/bridge` is one.
 */
import type { Logger } from 'pino';
import type { Decision, Policy, Question, Reach, Subject } from '../../acl/index.ts';
import type { WireMap, WireValue } from '../../minion-protocol/index.ts';
import type { MasterApi } from '../api.ts';
import type { AuditTrail } from '../audit/record.ts';
import type { MasterConfig } from '../config/options.ts';
import type { JobUpdate } from '../jobs/follow.ts';
import type { Admission } from '../keys/admission.ts';
import type { ExtPillar } from '../pillar/ext-pillar.ts';
import type { Occurrence } from '../reactions/intake.ts';
import type { ReactionResult } from '../reactions/reaction-run.ts';
import type { KeyAdvice } from '../requests/auth.ts';
import type { RpcMethod } from '../rpc/methods.ts';
import type { TargetRequest } from '../targeting/parse.ts';
import type { StateArea } from './state-area.ts';

/** Given to `createMaster`; opened with it, and closed with it. */
export interface MasterExtension {
  /** Letters, digits and `-`; none that another extension of the master has. */
  readonly name: string;
  /** Before any minion is served. What it throws ends the master's start. */
  open(host: ExtensionHost): Promise<OpenExtension>;
}

/** Somebody who logged in. */
export interface TokenHolder {
  readonly subject: Subject;
  /** What they may, now: see {@link ExtensionHost.decide}. */
  readonly policy: Policy;
  /** Fires when the token ends. */
  readonly ended: AbortSignal;
  /** Nothing that they began is under way any more. */
  stop(): void;
}

/** What keeps a target from meaning more than it may. */
export interface TargetBounds {
  /** Default: all minions, and whatever is known of them. */
  readonly reach?: Reach | undefined;
  /**
   * Secrets follow the target: it may go by ids, and by values of pillar that grains have no part
   * in. Default false.
   */
  readonly hasSecrets?: boolean;
}

/** What a master does for an extension. */
export interface ExtensionHost {
  /** In force; its members change with a reload. */
  readonly config: MasterConfig;
  /** @throws MasterError ERR_MASTER_STOPPED before {@link OpenExtension.start} */
  readonly master: () => MasterApi;
  /** The policy in force, now. */
  policy(): Policy;
  /**
   * The one decision. What is denied is told to the audit log.
   * @param policy - default: the one in force
   */
  decide(question: Question, policy?: Policy): Decision;
  /** The ids that a target means for certain. @throws MasterError ERR_BAD_TGT */
  minionsOf(target: TargetRequest, bounds?: TargetBounds): Promise<readonly string[]>;
  /** Whether a compound target of an operator's means all of these for certain. */
  isWithin(minions: readonly string[], target: string): boolean;
  /**
   * Follows a job that was published before, also by the master before this one, to its end: what
   * came back meanwhile comes first. @throws MasterError ERR_JOB_UNKNOWN
   */
  resumeJob(jid: string, signal?: AbortSignal): AsyncIterable<JobUpdate>;
  /** Whom a token belongs to. @throws AuthenticationError ERR_EAUTH_TOKEN, ERR_EAUTH_UNAVAILABLE */
  holdToken(token: string): Promise<TokenHolder>;
  /** A job id that no job has. */
  freshJid(): Promise<string>;
  readonly state: StateArea;
  readonly admission: Admission;
  readonly audit: AuditTrail;
  /** Fires an event `saltbridge/<extension>/<tag>`. */
  fire(tag: string, data: WireMap): void;
  readonly logger: Logger;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Fires when the master is being closed, before {@link OpenExtension.close}. */
  readonly closing: AbortSignal;
}

/** Takes signals that the policy let in. */
export interface SignalIntake {
  isWanted(tag: string, sender: string): boolean;
  /**
   * Whether one that its sender's rate does not allow waits, as requests do; it is dropped
   * otherwise, as events are.
   */
  isDelayed?(tag: string, sender: string): boolean;
  /**
   * Durable when it resolves; only then the minion is answered. The same request again adds
   * nothing.
   * @throws StoreError when it cannot be kept: the minion sends again
   */
  take(occurrence: Occurrence): Promise<void>;
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

/** Named commands, which reactions may call. */
export interface NamedCommands {
  /**
   * Calls one, to its end, as far as rules permit it to the caller. What cannot be done is an
   * outcome.
   * @param deadline ends the wait, not the work
   */
  run(call: NamedCall, deadline: AbortSignal): Promise<ReactionResult>;
}

/** An extension of a master that was opened. */
export interface OpenExtension {
  readonly intake?: SignalIntake;
  /** What it knows of keys that minions show. */
  readonly advice?: KeyAdvice;
  /** Put over each minion's pillar, last. */
  readonly pillar?: ExtPillar;
  /** Of one extension at most. */
  readonly commands?: NamedCommands;
  /** Methods at the local socket, by name; called there as `<extension>.<name>`. */
  readonly rpc?: ReadonlyMap<string, RpcMethod>;
  /**
   * The ports are bound, and the master's interface is there; the local socket is not, yet. What it
   * throws ends the master's start.
   */
  start?(): void | Promise<void>;
  /** Waits for what is under way. */
  close(): Promise<void>;
}
