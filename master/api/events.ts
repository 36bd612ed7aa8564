import type { ConfigChanges } from '#config';
import type { WireMap } from '#minion-protocol';

/** Event on the master's event bus. */
export interface MasterEvent {
  readonly tag: string;
  /**
   * Payload of the event. Its field `_stamp` is always present: a time in UTC, in ISO 8601 with
   * microseconds, without time zone.
   */
  readonly data: WireMap;
  /**
   * Identifier of the event in the event ring. Absent if events are not stored
   * (`saltbridge: event_ring`).
   */
  readonly id?: string;
}

/** Metric family. Names follow the conventions of Prometheus; times are in seconds. */
export type MetricFamily =
  | {
      readonly type: 'counter' | 'gauge';
      readonly name: string;
      readonly help: string;
      /** Label names. */
      readonly labels: readonly string[];
      readonly samples: readonly Sample[];
    }
  | {
      readonly type: 'histogram';
      readonly name: string;
      readonly help: string;
      readonly labels: readonly string[];
      /** Upper bounds of the histogram's buckets. */
      readonly bounds: readonly number[];
      readonly distributions: readonly Distribution[];
    };

/**
 * Events of one minion with the same tag that the policy rejected within 60 seconds, summarised for
 * operators.
 */
export interface Denial {
  readonly minion: string;
  readonly tag: string;
  readonly rule: string;
  readonly reason: string;
  /** Number of rejections that this entry summarises. */
  readonly count: number;
  /** Time of the first rejection, in milliseconds since 1970. */
  readonly firstAt: number;
  /** Time of the last rejection, in milliseconds since 1970. */
  readonly lastAt: number;
}

/** Result of reloading the configuration. */
export interface ReloadReport extends ConfigChanges {
  /** Renewed certificate files, which are now in use. */
  readonly certificates: readonly string[];
}

/** Value of a metric for one combination of label values. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Histogram of a metric for one combination of label values. */
export interface Distribution {
  readonly labels: Readonly<Record<string, string>>;
  /**
   * Number of values up to each bound, in the order of the bounds. The last number counts all
   * values.
   */
  readonly counts: readonly number[];
  readonly sum: number;
}
