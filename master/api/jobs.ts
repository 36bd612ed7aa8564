import type { WireMap, WireValue } from '#minion-protocol';
import type { Requested } from './audit.ts';

/** Job that is sent to a limited number of minions at a time. */
export interface BatchRequest extends RunRequest {
  /**
   * Maximum number of minions at a time: a count, or a percentage of the responding minions, such
   * as `25%`.
   */
  readonly size: number | string;
  /**
   * Delay between the end of the job on a minion and the publication to the next minion, in
   * seconds. Default: 0.
   */
  readonly waitSeconds?: number;
  /** Whether the first failure ends the batch without waiting for running minions. Default: false. */
  readonly failHard?: boolean;
}

/**
 * Update of a batch. The first is `gathered`, followed by the updates of its jobs. The last is
 * `ended`.
 */
export type BatchUpdate =
  | {
      readonly type: 'gathered';
      /** Minions that answered a ping. The job is sent to them. */
      readonly minions: readonly string[];
      /** Minions that did not answer the ping. Nothing is sent to them. */
      readonly silent: readonly string[];
      /** Present if the caller's rights reduced the target to a list of minions. */
      readonly isNarrowed?: true;
    }
  | JobUpdate
  | {
      readonly type: 'ended';
      /** Minion whose failure ended the batch (`failHard`). */
      readonly failed?: string;
      /** Minions that did not receive the job because the batch ended early. */
      readonly left: readonly string[];
    };

/** Job, with the timeouts that apply while the caller waits for it. */
export interface RunRequest extends PublishRequest {
  /**
   * Time without a return after which the master asks silent minions whether they still run the
   * job, in seconds. Default: the option `timeout`.
   */
  readonly timeoutSeconds?: number;
  /**
   * Time that minions have to answer whether they still run the job, in seconds. Default: the
   * option `gather_job_timeout`.
   */
  readonly gatherJobTimeoutSeconds?: number;
  /**
   * Time during which the master asks silent minions repeatedly before it stops waiting, in
   * seconds. With 0, the master asks once, as Salt does. Default: 0.
   */
  readonly patienceSeconds?: number;
  /**
   * Number of minions that run the job. The master chooses them at random among the targeted
   * minions that have the function. Default: all targeted minions.
   */
  readonly subset?: number;
}

/** Job to publish. */
export interface PublishRequest extends TargetRequest {
  /**
   * Function to run on the minion, in the form `module.function`. With a list, the job runs several
   * functions in order.
   */
  readonly fun: string | readonly string[];
  /**
   * Positional arguments. If there are several functions, this is a list with one list of arguments
   * for each function. The keyword arguments of a function are then the last value in its list, as
   * a map with `__kwarg__: true`.
   */
  readonly arg?: readonly WireValue[];
  /** Keyword arguments. Not allowed with several functions. */
  readonly kwarg?: Readonly<Record<string, WireValue>>;
  /**
   * Name of the user in the job. The minion's return repeats the name. Default: `saltbridge`. For
   * calls over the local socket, the master uses the name of the calling account, unless the caller
   * passes a name that begins with `sudo_`.
   */
  readonly user?: string;
  /** Returners to run on the minion, separated by commas. */
  readonly ret?: string;
  /** Metadata that is copied into the return. */
  readonly metadata?: WireMap;
  /**
   * Whether minions of Salt 3008 or later emit the event `salt/job/<jid>/start/<id>` before they
   * run the job.
   */
  readonly startEvent?: boolean;
  /**
   * Job id: twenty digits, optionally followed by `_` and a suffix. The id of an existing job is
   * allowed only to send the same job to further minions. Default: a new id.
   */
  readonly jid?: string;
}

/** Origin of a job that is published from inside the master's process. */
export interface JobOrigin extends Requested {
  /** Id of the minion that requested the job. The targeted minions receive this id, as in Salt. */
  readonly requestedBy?: string;
  /** Part of the requested target that was removed before the job was published. */
  readonly leftOut?: Pick<AddressedMinions, 'isNarrowed' | 'missing'>;
  /**
   * Called for each part of a batch, and for a job with `subset`, before it is published. The rights
   * of the user can change after the request. Returns the part that the rights permit.
   * @throws AuthorizationError, AuthenticationError
   */
  readonly judgePart?: (part: RunRequest & JobOrigin) => Promise<RunRequest & JobOrigin>;
}

/** Update of a running job. The first is `published`, and the last is `finished`. */
export type JobUpdate =
  | {
      readonly type: 'published';
      readonly jid: string;
      readonly minions: readonly string[];
      readonly missing: readonly string[];
      /** Present if the caller's rights reduced the target to a list of minions. */
      readonly isNarrowed?: true;
      /** Number of subscribers that did not receive the job because their queues were full. */
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
       * Minions that neither returned nor confirmed that the job runs. If the job was published to
       * at least one minion, these include the names in `missing` of the update `published`.
       */
      readonly silent: readonly string[];
      /** Minions that had not reconnected within the time allowed after a restart of the master. */
      readonly reconnecting: readonly string[];
      /** One entry for each targeted minion. The minions in `missing` come last. */
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
  /**
   * Name of the user or minion that started the job. If `selfMade` is `true`, the minion has reported
   * this name, and the master has not verified it.
   */
  readonly user: string;
  /** Time of the publication, in milliseconds since 1970. */
  readonly publishedAt: number;
  /** Whether the minion itself started the job, without a publication by the master. */
  readonly selfMade: boolean;
  /** Present if the user's rights reduced the target to a list of minions. */
  readonly isNarrowed?: true;
  /** Number of minions in each delivery state. */
  readonly counts: Readonly<Record<DeliveryState, number>>;
}

/** Minion that is subscribed to publications. */
export interface PresentMinion {
  readonly id: string;
  /** Name that Salt uses for the transport. */
  readonly transport: string;
  /** Remote address without the port. */
  readonly address: string;
  readonly by: PresenceEvidence;
  /**
   * Whether the connection certainly belongs to this minion. Always true if `by` is `announcement`.
   *
   * If `by` is `topic`, true if the last request of the minion came from the same address.
   * Otherwise another client may have subscribed to the topic.
   *
   * If `by` is `address`, the master counts the connections from the address, and the minions whose
   * last request came from this address. True if there are at least as many connections as minions.
   * Otherwise the master cannot determine which of these minions are connected.
   */
  readonly isSure: boolean;
}

/** Result of planning a target: the minions that would receive a job. */
export interface TargetPlan {
  /** Target as it would be published, with nodegroups replaced by compound expressions. */
  readonly tgt: string | readonly string[];
  readonly tgtType: string;
  readonly minions: readonly PlannedMinion[];
  /** Reason why the expression is invalid and therefore matches no minion. */
  readonly problem?: string;
}

/** Minions that a target selects, and names in the target's list that do not receive the job. */
export interface AddressedMinions {
  readonly minions: readonly string[];
  /**
   * Listed names that do not receive the job. Such a name has no accepted key, or the caller has no
   * rights for it.
   */
  readonly missing: readonly string[];
  /** Whether the caller's rights reduced the target to a list of minions. */
  readonly isNarrowed: boolean;
}

/** Target as a caller specifies it. */
export interface TargetRequest {
  /** Target expression, of the type that `tgtType` states. */
  readonly tgt: string | readonly string[];
  /**
   * Type of the target: `glob`, `pcre`, `list`, `grain`, `grain_pcre`, `pillar`, `pillar_exact`,
   * `pillar_pcre`, `ipcidr`, `compound` or `nodegroup`. Default: `glob`.
   */
  readonly tgtType?: string;
  /**
   * Separator between the keys of a path in grains or pillar. Not used for `compound`. Default:
   * `:`.
   */
  readonly delimiter?: string;
}

/** Return that a minion sent for a job. */
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
  /**
   * Present if the value was not stored because of the limit `stored_return_bytes`. `return` is then
   * a notice.
   */
  readonly notStored?: true;
}

/** State of one minion in a job. */
export interface Delivery {
  readonly minion: string;
  readonly state: DeliveryState;
  /** Time at which the minion's return was accepted, in milliseconds since 1970. */
  readonly receivedAt?: number;
  /** Reason why the state is `silent`. */
  readonly reason?: SilenceReason;
  /**
   * Time of the minion's last verified request, in milliseconds since 1970. Present for the states
   * `silent` and `reconnecting`.
   */
  readonly lastHeardAt?: number;
}

/** State of a minion in a job. */
export type DeliveryState =
  /** The minion has returned, without a failure. */
  | 'answered'
  /** The minion has returned a failure. */
  | 'failed'
  /** The minion confirmed that the job still runs. */
  | 'running'
  /** The minion has not returned yet, and a caller is waiting for it. */
  | 'waiting'
  /** The minion had not reconnected in time after a restart of the master. */
  | 'reconnecting'
  /** The minion has not returned, and no caller is waiting for it. */
  | 'silent';

/** Evidence that a minion is connected. */
type PresenceEvidence =
  /** The minion sent its token on its publish connection (TCP). */
  | 'announcement'
  /**
   * A connected client subscribes to the topic of this minion alone. Such topics exist only with
   * ZeroMQ and `zmq_filtering`.
   */
  | 'topic'
  /** A client subscribes from the address of the minion's last authenticated request. */
  | 'address';

/** Minion in a {@link TargetPlan}, with the reason why it is listed. */
export type PlannedMinion =
  | {
      readonly id: string;
      readonly reason: 'matched';
      /**
       * Conditions of the target that match the minion. If the target consists only of exclusions,
       * this is the whole target.
       */
      readonly by: readonly string[];
    }
  /** The minion may match. This is uncertain because its grains or pillar are unknown. */
  | { readonly id: string; readonly reason: 'facts-unknown' }
  /** The target names the minion, but the minion has no accepted key. */
  | { readonly id: string; readonly reason: 'missing' };

/** Likely reason why a minion did not return, as far as the master can determine it. */
export type SilenceReason =
  /** The minion's key is not accepted, or no longer accepted. */
  | 'key-not-accepted'
  /** The minion has sent nothing since this master started. */
  | 'never-heard'
  /** The minion sent its last request before the job was published. */
  | 'not-heard-since'
  /**
   * Some subscribers, possibly including this minion, did not receive the job because their queues
   * were full.
   */
  | 'queue-full'
  /** The minion sent requests after the job was published, but returned nothing. */
  | 'no-return'
  /** The job was not sent to the minion, because the publishing process ended first. */
  | 'not-sent'
  /** The publishing process ended during the job, so it is unknown whether the minion ran it. */
  | 'unknown';
