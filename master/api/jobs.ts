import type { WireMap, WireValue } from '#minion-protocol';
import type { Requested } from './audit.ts';

/** A job, and how it is spread. */
export interface BatchRequest extends RunRequest {
  /** Minions at a time: a number, or a part of those that answered, such as `25%`. */
  readonly size: number | string;
  /** Seconds that a place stays empty after its minion is done. Default 0. */
  readonly waitSeconds?: number;
  /** Whether the first failure ends it; what runs by then is not waited for. Default false. */
  readonly failHard?: boolean;
}

/** What a batch tells: `gathered`, then what its jobs tell, `ended` last. */
export type BatchUpdate =
  | {
      readonly type: 'gathered';
      /** Minions that answered a ping; the job is for them. */
      readonly minions: readonly string[];
      /** Minions that did not; nothing will be sent to them. */
      readonly silent: readonly string[];
      /** Present if the caller's rights limited the target to minions that they name. */
      readonly isNarrowed?: true;
    }
  | JobUpdate
  | {
      readonly type: 'ended';
      /** The minion whose failure ended it (`failHard`). */
      readonly failed?: string;
      /** Minions that nothing was sent to because of that. */
      readonly left: readonly string[];
    };

/** A job with the patience of whoever waits for it. */
export interface RunRequest extends PublishRequest {
  /** Without news for so long, the silent minions are asked whether they still run it. */
  readonly timeoutSeconds?: number;
  /** How long they have for that answer. */
  readonly gatherJobTimeoutSeconds?: number;
  /**
   * Seconds for which silent minions are asked again and again before they are given up. Default 0:
   * a minion is given up after it was asked once, as in Salt.
   */
  readonly patienceSeconds?: number;
  /** Run on so many minions only, chosen at random among those that have the function. */
  readonly subset?: number;
}

/** What a caller wants done. */
export interface PublishRequest extends TargetRequest {
  /** The minion's function, `module.function`; a list: several in one job, one after the other. */
  readonly fun: string | readonly string[];
  /**
   * Positional arguments. For several functions a list for each, in their order; keywords are
   * then its last value, a map with `__kwarg__: true`.
   */
  readonly arg?: readonly WireValue[];
  /** Keyword arguments; not for several functions. */
  readonly kwarg?: Readonly<Record<string, WireValue>>;
  /**
   * Shown in the job and given back by the minion. Default `saltbridge`. Over the local socket it is
   * the account that calls, or `sudo_<name>` if that is given.
   */
  readonly user?: string;
  /** Returners that run on the minion, comma separated. */
  readonly ret?: string;
  /** Copied into the return. */
  readonly metadata?: WireMap;
  /** Whether minions of 3008 and later tell `salt/job/<jid>/start/<id>` before they begin. */
  readonly startEvent?: boolean;
  /**
   * The job's id: twenty digits, and `_` with more behind them if you like. That of another job
   * only if this is the same for minions that it was not for. Default: a new one.
   */
  readonly jid?: string;
}

/** What is known of a job's origin where it is published in the process of the master. */
export interface JobOrigin extends Requested {
  /** The minion that asks for it; told to the minions, as Salt does. */
  readonly requestedBy?: string;
  /** The part of the target that was left out before the job was published. */
  readonly leftOut?: Pick<AddressedMinions, 'isNarrowed' | 'missing'>;
}

/** What a running job tells, in this order: `published`, then the rest, `finished` last. */
export type JobUpdate =
  | {
      readonly type: 'published';
      readonly jid: string;
      readonly minions: readonly string[];
      readonly missing: readonly string[];
      /** Present if the caller's rights limited the target to minions that they name. */
      readonly isNarrowed?: true;
      /** Subscribers that were passed over because their queue was full. */
      readonly skipped: number;
      /** Those that it was never sent to, where the process that published it ended before. */
      readonly notSent?: readonly string[];
      /** Why the target is broken, and therefore means nobody. */
      readonly problem?: string;
    }
  | ({ readonly type: 'return'; readonly jid: string } & JobReturn)
  /** These minions said that they are still at it. */
  | { readonly type: 'running'; readonly jid: string; readonly minions: readonly string[] }
  | {
      readonly type: 'finished';
      readonly jid: string;
      readonly answered: readonly string[];
      /**
       * Minions that neither returned nor said that they are still at it, and the names of `missing`
       * if the job was published to anybody.
       */
      readonly silent: readonly string[];
      /** Those that had not come back from a restart of the master in time for the job. */
      readonly reconnecting: readonly string[];
      /** A line for each targeted minion, those of `missing` last. */
      readonly deliveries: readonly Delivery[];
    };

/** Which jobs to list. */
export interface JobListRequest {
  /** At most so many, the latest first. Default 50. */
  readonly limit?: number;
}

/** A job and what is known of it. */
export interface JobReport extends JobSummary {
  readonly arg: readonly WireValue[];
  readonly deliveries: readonly Delivery[];
  /** What came back until now, late returns too. */
  readonly returns: readonly JobReturn[];
}

/** A job without what came back. */
export interface JobSummary {
  readonly jid: string;
  readonly fun: string | readonly string[];
  readonly tgt: string | readonly string[];
  readonly tgtType: string;
  readonly user: string;
  /** Milliseconds since 1970. */
  readonly publishedAt: number;
  /** Whether a minion started it itself. */
  readonly selfMade: boolean;
  /** Present if the rights of its user limited the target to minions that they name. */
  readonly isNarrowed?: true;
  /** How many minions there are in each state. */
  readonly counts: Readonly<Record<DeliveryState, number>>;
}

/** A minion that listens to publications. */
export interface PresentMinion {
  readonly id: string;
  /** Salt's name of the transport. */
  readonly transport: string;
  /** Remote address without port. */
  readonly address: string;
  readonly by: PresenceEvidence;
  /**
   * Whether it is this minion, as far as a token or its own requests can tell. False by topic if
   * its requests come from elsewhere, because anybody may ask for a topic; false by address where
   * fewer connections come from an address than minions were heard from it: some of them are
   * there, and which is not known.
   */
  readonly isSure: boolean;
}

/** What publishing to a target would mean. */
export interface TargetPlan {
  /** As it would be published: nodegroups are compound expressions by now. */
  readonly tgt: string | readonly string[];
  readonly tgtType: string;
  readonly minions: readonly PlannedMinion[];
  /** Why the expression is broken, and therefore means nobody. */
  readonly problem?: string;
}

/** Minions that a target addresses, and the part of the target that is left out. */
export interface AddressedMinions {
  readonly minions: readonly string[];
  /**
   * Names in the target that are not addressed: they have no accepted key, or the rights of the
   * caller do not extend to them.
   */
  readonly missing: readonly string[];
  /** Whether the caller's rights limit the target to minions that they name. */
  readonly isNarrowed: boolean;
}

/** A target as a caller names it. */
export interface TargetRequest {
  /** Who, in the form that `tgtType` says. */
  readonly tgt: string | readonly string[];
  /**
   * `glob`, `pcre`, `list`, `grain`, `grain_pcre`, `pillar`, `pillar_exact`, `pillar_pcre`,
   * `ipcidr`, `compound` or `nodegroup`. Default `glob`.
   */
  readonly tgtType?: string;
  /** Between the keys of grains and pillar, outside of `compound`. Default `:`. */
  readonly delimiter?: string;
}

/** What a minion returned for a job. */
export interface JobReturn {
  readonly minion: string;
  /** The id of what it is the result of, where the minion ran the job on what it manages. */
  readonly resource?: string;
  readonly fun: string | readonly string[];
  readonly return: WireValue;
  readonly retcode: WireValue;
  readonly success: WireValue;
  /** Name of the outputter that the function asked for. */
  readonly out?: string;
  /** Milliseconds since 1970. */
  readonly receivedAt: number;
}

/** One minion's line in the ledger of a job. */
export interface Delivery {
  readonly minion: string;
  readonly state: DeliveryState;
  /** When its return was taken, milliseconds since 1970. */
  readonly receivedAt?: number;
  /** For silent ones. */
  readonly reason?: SilenceReason;
  /** When its last verified request came, milliseconds since 1970, for silent and reconnecting ones. */
  readonly lastHeardAt?: number;
}

/** How a minion stands to a job. */
export type DeliveryState =
  /** It returned. */
  | 'answered'
  /** It returned, and says that it failed. */
  | 'failed'
  /** It said, when it was asked, that it is still at it. */
  | 'running'
  /** Somebody still waits for it. */
  | 'waiting'
  /** It had not come back from a restart of the master in time for the job. */
  | 'reconnecting'
  /** Nothing came, and nobody waits. */
  | 'silent';

/** How a master knows that a minion is there. */
type PresenceEvidence =
  /** It said so over its publish connection, with its token (TCP). */
  | 'announcement'
  /** Somebody listens to its own topic (ZeroMQ with `zmq_filtering`). */
  | 'topic'
  /** Somebody listens at the address that its last authenticated request came from. */
  | 'address';

/** Why a name is in a {@link TargetPlan}. */
export type PlannedMinion =
  | {
      readonly id: string;
      readonly reason: 'matched';
      /** The conditions that are met; the whole target where it only takes others away. */
      readonly by: readonly string[];
    }
  /** It may match: its grains or pillar are not known. */
  | { readonly id: string; readonly reason: 'facts-unknown' }
  /** It is listed, and has no accepted key. */
  | { readonly id: string; readonly reason: 'missing' };

/** Why nothing came, as far as a master can know. */
export type SilenceReason =
  /** Its key is not accepted, or no longer. */
  | 'key-not-accepted'
  /** Not heard since the start of this master. */
  | 'never-heard'
  /** Heard last before the job was published. */
  | 'not-heard-since'
  /** Some subscribers, perhaps this one, were passed over because their queue was full. */
  | 'queue-full'
  /** It was heard after the job was published, but returned nothing. */
  | 'no-return'
  /** It was never sent: the process that published it ended before. */
  | 'not-sent'
  /** The process that published it ended meanwhile: whether the minion ran it cannot be learned. */
  | 'unknown';
