import type { IdentityToken } from '#runtime';

/** Minion, authenticated by the key with which its request was encrypted. */
export interface MinionSubject {
  readonly kind: 'minion';
  readonly id: string;
}

/** A user who logged in. */
export interface UserSubject {
  readonly kind: 'user';
  readonly name: string;
  /** Groups confirmed by the authentication. */
  readonly groups: readonly string[];
  /** Backend of `external_auth`, or `undefined` for an account of this host (`publisher_acl`). */
  readonly eauth?: string;
}

/**
 * Service, for example `reaction:NAME`, or token: a name that the embedding program passes as the
 * caller.
 */
interface NamedSubject {
  readonly kind: 'service' | 'token';
  readonly name: string;
}

/** Project or user in Keystone. Its id is unique. Its name is unique only within its domain. */
export type KeystoneEntity = IdentityToken['user'];

/** A user who acts for a project, confirmed by Keystone. */
export interface ProjectSubject {
  readonly kind: 'project';
  readonly project: KeystoneEntity;
  readonly user: KeystoneEntity;
  /** Names of the user's roles in the project. */
  readonly roles: readonly string[];
}

/** Subject of a question: the client that sends the request. */
export type Subject = MinionSubject | UserSubject | ProjectSubject | NamedSubject;

/** An event to be fired on the bus. */
export interface EventResource {
  /** Tag of the event, including any prefix. */
  readonly tag: string;
  /** Returns whether this job was published to the subject. Called for job events only. */
  readonly wasPublishedToSubject: (jid: string) => boolean;
  /** Data of the event. Read only if a rule has a schema. */
  readonly data?: unknown;
  /** Returns an upper bound of the event's size, in bytes. Called only if a rule has a limit. */
  readonly bytes?: () => number;
}

/** Job for which a minion sends a return. */
export interface ReturnResource {
  /** Twenty digits, or `req` for a job that the minion started itself. */
  readonly jid: string;
  readonly fun: string | readonly string[];
  /** The job as it was published, or `undefined` if the master does not have it. */
  readonly job:
    | {
        readonly minions: ReadonlySet<string>;
        readonly fun: string | readonly string[];
      }
    | undefined;
  /**
   * Present if the minion returns the result of a resource that it manages (Salt 3008), and absent
   * if it returns its own. `id` is the resource. `isOwn` states whether the minion has reported
   * that it manages this resource.
   */
  readonly managed?: { readonly id: string; readonly isOwn: boolean };
}

/**
 * A function and its arguments. Arguments are texts in Python's form: `True`, `None`, `[1, 'a']`.
 */
export interface Call {
  readonly fun: string;
  readonly args: readonly string[];
  readonly kwargs: ReadonlyMap<string, string>;
}

/** A named command to be run. Its name is the function of the call. */
interface CommandResource {
  readonly call: Call;
  /**
   * Id of a project. Only present in commands that create or end an enrolment for this project. If
   * absent, each minion counts as belonging to the project for which it was enrolled.
   */
  readonly project?: string;
  /**
   * Ids of the targeted minions. If absent, they are not known, and rules that are limited to
   * certain minions (`within`) grant nothing.
   */
  readonly minions?: readonly string[];
}

/** A job to be published. */
interface PublishResource {
  readonly calls: readonly Call[];
  /**
   * Ids of the targeted minions. If absent, they are not known, and rules that are limited to
   * certain minions (`within`) grant nothing.
   */
  readonly minions?: readonly string[];
}

/** A value to be read from a mine. */
interface MineResource {
  readonly fun: string;
  /**
   * Id of the minion that owns the mine. If absent, the question is whether the subject may request
   * the function from at least one owner.
   */
  readonly owner?: string;
  /** Returns whether the owner allows the reader access (`allow_tgt`). Default: allowed. */
  readonly isAllowedByOwner?: () => boolean;
}

/** Form of the resource in a question to the policy. Each action has its own form. */
interface Resources {
  readonly signal: EventResource;
  readonly return: ReturnResource;
  /** Job to publish. For a minion, this is Salt's peer publishing. */
  readonly publish: PublishResource;
  readonly runner: { readonly call: Call };
  readonly wheel: { readonly call: Call };
  readonly command: CommandResource;
  readonly mine: MineResource;
  /** Requested path below the sender's own folder. */
  readonly 'file-send': { readonly path: string };
  /** Environment that the sender requests by name. */
  readonly pillar: { readonly environment: string };
  /** Operation on the sender's own key; only `revoke` exists. */
  readonly key: { readonly operation: string };
  readonly subscribe: { readonly tag: string };
}

/** Name of an action about which the policy decides. */
export type Action = keyof Resources;

/** Question about one action. */
export type QuestionOf<A extends Action> = {
  readonly [Each in A]: {
    readonly subject: Each extends 'return' ? MinionSubject : Subject;
    readonly action: Each;
    readonly resource: Resources[Each];
    /**
     * Whether a decision has already permitted the same request, which then waited. The question
     * neither counts towards rate limits again, nor is it denied because of them. Default: false.
     */
    readonly isRepeated?: boolean;
  };
}[A];

/** Question for {@link decide}: whether a subject may perform an action on a resource. */
export type Question = QuestionOf<Action>;

/** Location of a rule in a file. */
export interface RuleOrigin {
  readonly file: string;
  /** Line number, starting at 1. 0 if there is none. */
  readonly line: number;
}

/** Decision about a question, with the deciding rule. */
export interface Decision {
  readonly effect: 'allow' | 'deny';
  /** Name of the deciding rule. `default-deny` if no rule applied. */
  readonly rule: string;
  /** Explanation of the decision, in one sentence. */
  readonly reason: string;
  /** Location of the deciding rule, if it comes from a file. */
  readonly origin?: RuleOrigin;
}

/** Built-in rule. `judge` returns the reason if the rule applies, otherwise `undefined`. */
export interface BuiltInRule<A extends Action> {
  readonly name: string;
  readonly effect: 'allow' | 'deny';
  readonly judge: (question: QuestionOf<A>) => string | undefined;
}
