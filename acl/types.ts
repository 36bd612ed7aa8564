import type { IdentityToken } from '#runtime';

/** A minion whose key opened the request. */
export interface MinionSubject {
  readonly kind: 'minion';
  readonly id: string;
}

/** Somebody who logged in. */
export interface UserSubject {
  readonly kind: 'user';
  readonly name: string;
  /** Groups that the authentication vouches for. */
  readonly groups: readonly string[];
  /** Which one of `external_auth`; `undefined`: an account of this host (`publisher_acl`). */
  readonly eauth?: string;
}

/** A service that acts for nobody else, or a token that was given to one. */
interface NamedSubject {
  readonly kind: 'service' | 'token';
  readonly name: string;
}

/** A project or a user of Keystone: its id is unique, its name only within its domain. */
export type KeystoneEntity = IdentityToken['user'];

/** A user who acts for a project, as Keystone vouches for it. */
export interface ProjectSubject {
  readonly kind: 'project';
  readonly project: KeystoneEntity;
  readonly user: KeystoneEntity;
  /** Names of the user's roles in the project. */
  readonly roles: readonly string[];
}

/** Who asks. */
export type Subject = MinionSubject | UserSubject | ProjectSubject | NamedSubject;

/** An event that somebody wants on the bus. */
export interface EventResource {
  /** The tag as it would be fired, any prefix included. */
  readonly tag: string;
  /** Whether this job was published to the subject. Asked for events of jobs only. */
  readonly wasPublishedToSubject: (jid: string) => boolean;
  /** What the sender says with it; asked only where a rule has a schema. */
  readonly data?: unknown;
  /** Bytes of the event, an upper bound; asked only where a rule has a limit. */
  readonly bytes?: () => number;
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
  /** Where it is the result of what the minion manages: its id, and whether it has registered it. */
  readonly managed?: { readonly id: string; readonly isOwn: boolean };
}

/** A function and its arguments, as texts in Python's form: `True`, `None`, `[1, 'a']`. */
export interface Call {
  readonly fun: string;
  readonly args: readonly string[];
  readonly kwargs: ReadonlyMap<string, string>;
}

/** A named command that somebody wants run. Its name stands where the function of a call does. */
interface CommandResource {
  readonly call: Call;
  /** Ids of the minions that it is for. Absent: not known; rules with `within` permit nothing then. */
  readonly minions?: readonly string[];
}

/** A job that somebody wants published. */
interface PublishResource {
  readonly calls: readonly Call[];
  /** Ids of the minions that it is for. Absent: not known; rules with `within` permit nothing then. */
  readonly minions?: readonly string[];
}

/** What somebody reads from a mine. */
interface MineResource {
  readonly fun: string;
  /** Whose mine it is; `undefined`: whether the function may be asked for at all. */
  readonly owner?: string;
  /** Whether the owner's own word on it (`allow_tgt`) lets the reader have it. Default: yes. */
  readonly isAllowedByOwner?: () => boolean;
}

/** The resource of each action. */
interface Resources {
  readonly signal: EventResource;
  readonly return: ReturnResource;
  /** From a minion it is what Salt calls a peer's. */
  readonly publish: PublishResource;
  readonly runner: { readonly call: Call };
  readonly wheel: { readonly call: Call };
  readonly command: CommandResource;
  readonly mine: MineResource;
  /** A path below the sender's own folder, as it was asked for. */
  readonly 'file-send': { readonly path: string };
  /** The environment that the sender asks for by name. */
  readonly pillar: { readonly environment: string };
  /** `revoke`: the sender's own key. */
  readonly key: { readonly operation: string };
  readonly subscribe: { readonly tag: string };
}

/** An action that a question is about. */
export type Action = keyof Resources;

/** The question of one action. */
export type QuestionOf<A extends Action> = {
  readonly [Each in A]: {
    readonly subject: Each extends 'return' ? MinionSubject : Subject;
    readonly action: Each;
    readonly resource: Resources[Each];
  };
}[A];

/** A question for {@link decide}. */
export type Question = QuestionOf<Action>;

/** Where a rule was written. */
export interface RuleOrigin {
  readonly file: string;
  /** 1 is the first; 0 if there is none. */
  readonly line: number;
}

/** An answer, with the rule that gave it. */
export interface Decision {
  readonly effect: 'allow' | 'deny';
  /** Name of the deciding rule; `default-deny` when none applied. */
  readonly rule: string;
  /** One sentence for a person. */
  readonly reason: string;
  /** Where the deciding rule was written, if it was. */
  readonly origin?: RuleOrigin;
}

/** A rule of our own looks at one question and either does not apply or says why it does. */
export interface BuiltInRule<A extends Action> {
  readonly name: string;
  readonly effect: 'allow' | 'deny';
  readonly judge: (question: QuestionOf<A>) => string | undefined;
}
