import type { Grant } from './grants.ts';

/** A minion whose key opened the request. */
export interface MinionSubject {
  readonly kind: 'minion';
  readonly id: string;
}

/** An event that a minion wants on the bus. */
export interface EventResource {
  /** The tag as it would be fired, any prefix included. */
  readonly tag: string;
  /** Whether this job was published to the subject. Asked for progress events only. */
  readonly wasPublishedToSubject: (jid: string) => boolean;
}

/** A job that a minion returns for. */
export interface ReturnResource {
  /** Twenty digits, or `req` for a job that the minion started itself. */
  readonly jid: string;
  readonly fun: string | readonly string[];
  /** The job as it was published; `undefined` when the master knows no such job. */
  readonly job:
    | {
        readonly minions: ReadonlySet<string>;
        readonly fun: string | readonly string[];
      }
    | undefined;
}

/** A function and its arguments, as texts in Python's form: `True`, `None`, `[1, 'a']`. */
export interface Call {
  readonly fun: string;
  readonly args: readonly string[];
  readonly kwargs: ReadonlyMap<string, string>;
}

/** A job that a minion wants published. */
export interface PublishResource {
  readonly calls: readonly Call[];
  /** Whether every minion that the job is for is one that this compound target means. */
  readonly isWithin: (target: string) => boolean;
}

/** What is asked of {@link decide}. */
export type Question =
  | {
      readonly subject: MinionSubject;
      readonly action: 'signal';
      readonly resource: EventResource;
    }
  | {
      readonly subject: MinionSubject;
      readonly action: 'return';
      readonly resource: ReturnResource;
    }
  | {
      readonly subject: MinionSubject;
      readonly action: 'publish';
      /** `peer` */
      readonly grants: readonly Grant[];
      readonly resource: PublishResource;
    }
  | {
      readonly subject: MinionSubject;
      readonly action: 'runner';
      /** `peer_run` */
      readonly grants: readonly Grant[];
      readonly resource: { readonly call: Call };
    }
  | {
      readonly subject: MinionSubject;
      readonly action: 'mine';
      /** `mine_get`; `undefined`: not set, so that every minion may read. */
      readonly grants: readonly Grant[] | undefined;
      readonly resource: { readonly fun: string };
    };

/** The question of one action. */
export type QuestionOf<A extends Question['action']> = Extract<Question, { action: A }>;

/** An answer, with the rule that gave it. */
export interface Decision {
  readonly effect: 'allow' | 'deny';
  /** Name of the deciding rule; `default-deny` when none applied. */
  readonly rule: string;
  /** One sentence for a person. */
  readonly reason: string;
}

/** A rule looks at one question and either does not apply or says why it does. */
export interface Rule<Q extends Question> {
  readonly name: string;
  readonly effect: 'allow' | 'deny';
  readonly judge: (question: Q) => string | undefined;
}
