import type { WireMap, WireValue } from '#minion-protocol';
import type { Requested } from './audit.ts';

/** Job that is sent to a limited number of minions at a time. */
export interface BatchRequest extends RunRequest {
  /** Maximum number of minions at a time: a count, or a share of those that respond, such as `25%`. */
  readonly size: number | string;
  /** Delay before the slot of a finished minion is filled again, in seconds. Default: 0. */
  readonly waitSeconds?: number;
  /** Whether the first failure ends the batch without waiting for running minions. Default: false. */
  readonly failHard?: boolean;
}

/** Update of a batch: first `gathered`, then the updates of its jobs, and `ended` last. */
export type BatchUpdate =
  | {
      readonly type: 'gathered';
      /** Minions that answered a ping. The job is sent to them. */
      readonly minions: readonly string[];
      /** Minions that did not answer the ping. Nothing is sent to them. */
      readonly silent: readonly string[];
      /** Present if the caller's rights limited the target to minions that they name. */
      readonly isNarrowed?: true;
    }
  | JobUpdate
  | {
      readonly type: 'ended';
      /** Minion whose failure ended the batch (`failHard`). */
      readonly failed?: string;
      /** Minions to which nothing was sent because of the failure. */
      readonly left: readonly string[];
    };

/** Job with the timeouts of the caller that waits for it. */
export interface RunRequest extends PublishRequest {
  /**
   * Time without a return after which silent minions are asked whether the job still runs, in
   * seconds.
   */
  readonly timeoutSeconds?: number;
  /** Time that minions have to answer that question, in seconds. */
  readonly gatherJobTimeoutSeconds?: number;
  /**
   * Time during which silent minions are asked repeatedly before the master stops waiting, in
   * seconds. Default: 0, which asks once, as in Salt.
   */
  readonly patienceSeconds?: number;
  /** Number of minions to run on, chosen at random among those that have the function. */
  readonly subset?: number;
}

/** Job to publish. */
export interface PublishRequest extends TargetRequest {
  /**
   * Function of the minion, `module.function`. A list runs several functions in one job, in order.
   */
  readonly fun: string | readonly string[];
  /**
   * Positional arguments. For several functions, a list for each of them in their order. Keywords
   * are then the last value of such a list, as a map with `__kwarg__: true`.
   */
  readonly arg?: readonly WireValue[];
  /** Keyword arguments. Not allowed with several functions. */
  readonly kwarg?: Readonly<Record<string, WireValue>>;
  /**
   * Name of the user in the job, which the minion returns. Default: `saltbridge`. Over the local
   * socket it is the calling account, or `sudo_<name>` if that is given.
   */
  readonly user?: string;
  /** Returners to run on the minion, separated by commas. */
  readonly ret?: string;
  /** Metadata that is copied into the return. */
  readonly metadata?: WireMap;
  /**
   * Whether minions of version 3008 or later emit `salt/job/<jid>/start/<id>` before they start.
   */
  readonly startEvent?: boolean;
  /**
   * Job id: twenty digits, optionally followed by `_` and a suffix. The id of an existing job is
   * allowed only if the same job is extended to further minions. Default: a new one.
   */
  readonly jid?: string;
}

/** Origin of a job that is published inside the master's process. */
export interface JobOrigin extends Requested {
  /** Minion that requested the job. The target minions receive its id, as in Salt. */
  readonly requestedBy?: string;
  /** Part of the target that was removed before the job was published. */
  readonly leftOut?: Pick<AddressedMinions, 'isNarrowed' | 'missing'>;
}

/** Update of a running job: first `published`, then the others, and `finished` last. */
export type JobUpdate =
  | {
      readonly type: 'published';
      readonly jid: string;
      readonly minions: readonly string[];
      readonly missing: readonly string[];
      /** Present if the caller's rights limited the target to minions that they name. */
      readonly isNarrowed?: true;
      /** Number of subscribers that were skipped because their queue was full. */
      readonly skipped: number;
      /** Minions that never received the job because the publishing process ended. */
      readonly notSent?: readonly string[];
      /** Reason why the target is invalid and therefore matches no minion. */
      readonly problem?: string;
    }
  | ({ readonly type: 'return'; readonly jid: string } & JobReturn)
  /** Minions that confirmed that the job still runs. */
  | { readonly type: 'running'; readonly jid: string; readonly minions: readonly string[] }
  | {
      readonly type: 'finished';
      readonly jid: string;
      readonly answered: readonly string[];
      /**
       * Minions that neither returned nor confirmed that the job runs. Includes the names of
       * `missing` if the job was published to at least one minion.
       */
      readonly silent: readonly string[];
      /** Minions that had not reconnected in time after a restart of the master. */
      readonly reconnecting: readonly string[];
      /** One entry for each targeted minion, with those of `missing` last. */
      readonly deliveries: readonly Delivery[];
    };

/** Selection of jobs to list. */
export interface JobListRequest {
  /** Maximum number of jobs, latest first. Default: 50. */
  readonly limit?: number;
}

/** Job with its arguments, deliveries and returns. */
export interface JobReport extends JobSummary {
  readonly arg: readonly WireValue[];
  readonly deliveries: readonly Delivery[];
  /** Returns received so far, including late ones. */
  readonly returns: readonly JobReturn[];
}

/** Job without its returns. */
export interface JobSummary {
  readonly jid: string;
  readonly fun: string | readonly string[];
  readonly tgt: string | readonly string[];
  readonly tgtType: string;
  readonly user: string;
  /** Time of the publication, in milliseconds since 1970. */
  readonly publishedAt: number;
  /** Whether a minion started the job itself. */
  readonly selfMade: boolean;
  /** Present if the user's rights limited the target to minions that they name. */
  readonly isNarrowed?: true;
  /** Number of minions in each state. */
  readonly counts: Readonly<Record<DeliveryState, number>>;
}

/** Minion that is subscribed to publications. */
export interface PresentMinion {
  readonly id: string;
  /** Name of the transport in Salt. */
  readonly transport: string;
  /** Remote address without the port. */
  readonly address: string;
  readonly by: PresenceEvidence;
  /**
   * Whether the connection is known to belong to this minion, by a token or by its own requests.
   * False for `topic` if its requests come from another address, because any client can subscribe
   * to a topic. False for `address` if the address has fewer connections than active minions,
   * because the master cannot determine which of them are connected.
   */
  readonly isSure: boolean;
}

/** Effect of publishing to a target. */
export interface TargetPlan {
  /** Target as it would be published, with nodegroups replaced by compound expressions. */
  readonly tgt: string | readonly string[];
  readonly tgtType: string;
  readonly minions: readonly PlannedMinion[];
  /** Reason why the expression is invalid and therefore matches no minion. */
  readonly problem?: string;
}

/** Minions that a target matches, and the part of the target that is excluded. */
export interface AddressedMinions {
  readonly minions: readonly string[];
  /**
   * Names in the target that receive nothing: they have no accepted key, or are outside the rights
   * of the caller.
   */
  readonly missing: readonly string[];
  /** Whether the caller's rights limit the target to minions that they name. */
  readonly isNarrowed: boolean;
}

/** Target as a caller specifies it. */
export interface TargetRequest {
  /** Target expression in the form that `tgtType` defines. */
  readonly tgt: string | readonly string[];
  /**
   * Type of the target: `glob`, `pcre`, `list`, `grain`, `grain_pcre`, `pillar`, `pillar_exact`,
   * `pillar_pcre`, `ipcidr`, `compound` or `nodegroup`. Default: `glob`.
   */
  readonly tgtType?: string;
  /** Separator between the keys of grains and pillar, outside of `compound`. Default: `:`. */
  readonly delimiter?: string;
}

/** Return of a minion for a job. */
export interface JobReturn {
  readonly minion: string;
  /** Id of the resource, if the minion ran the job on a resource that it manages. */
  readonly resource?: string;
  readonly fun: string | readonly string[];
  readonly return: WireValue;
  readonly retcode: WireValue;
  readonly success: WireValue;
  /** Name of the outputter that the function requested. */
  readonly out?: string;
  /** Time at which the return was accepted, in milliseconds since 1970. */
  readonly receivedAt: number;
}

/** State of one minion in a job. */
export interface Delivery {
  readonly minion: string;
  readonly state: DeliveryState;
  /** Time at which its return was accepted, in milliseconds since 1970. */
  readonly receivedAt?: number;
  /** Reason for the state `silent`. */
  readonly reason?: SilenceReason;
  /**
   * Time of its last verified request, in milliseconds since 1970. Present for `silent` and
   * `reconnecting`.
   */
  readonly lastHeardAt?: number;
}

/** State of a minion in a job. */
export type DeliveryState =
  /** The minion returned. */
  | 'answered'
  /** The minion returned a failure. */
  | 'failed'
  /** The minion confirmed that the job still runs. */
  | 'running'
  /** A caller still waits for the minion. */
  | 'waiting'
  /** The minion had not reconnected in time after a restart of the master. */
  | 'reconnecting'
  /** The minion returned nothing, and no caller waits. */
  | 'silent';

/** Evidence that a minion is connected. */
type PresenceEvidence =
  /** The minion announced itself with its token on its publish connection (TCP). */
  | 'announcement'
  /** A client subscribes to the minion's own topic (ZeroMQ with `zmq_filtering`). */
  | 'topic'
  /** A client subscribes from the address of the minion's last authenticated request. */
  | 'address';

/** Reason why a name is in a {@link TargetPlan}. */
export type PlannedMinion =
  | {
      readonly id: string;
      readonly reason: 'matched';
      /** Conditions that match. The whole target if it consists of exclusions only. */
      readonly by: readonly string[];
    }
  /** The minion may match: its grains or pillar are unknown. */
  | { readonly id: string; readonly reason: 'facts-unknown' }
  /** The minion is listed, but has no accepted key. */
  | { readonly id: string; readonly reason: 'missing' };

/** Reason why a minion returned nothing, as far as the master knows. */
export type SilenceReason =
  /** Its key is not, or no longer, accepted. */
  | 'key-not-accepted'
  /** The minion has sent nothing since this master started. */
  | 'never-heard'
  /** The minion sent its last request before the job was published. */
  | 'not-heard-since'
  /** Some subscribers, possibly this one, were skipped because their queue was full. */
  | 'queue-full'
  /** The minion sent requests after the job was published, but returned nothing. */
  | 'no-return'
  /** The job was never sent to it: the publishing process ended before. */
  | 'not-sent'
  /** The publishing process ended during the job, so it is unknown whether the minion ran it. */
  | 'unknown';
