import type { ConfigChanges } from '#config';
import type { WireMap } from '#minion-protocol';

/** Event on the master's event bus. */
export interface MasterEvent {
  readonly tag: string;
  /**
   * Payload of the event. Always contains `_stamp`: UTC, ISO 8601 with microseconds, without time
   * zone.
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
      /** Upper bounds of the buckets. */
      readonly bounds: readonly number[];
      readonly distributions: readonly Distribution[];
    };

/** Signal that the policy rejected, for operators who look for the reason. */
export interface Denial {
  readonly minion: string;
  readonly tag: string;
  readonly rule: string;
  readonly reason: string;
  /** Number of rejections in this burst. */
  readonly count: number;
  /** Time of the first rejection, in milliseconds since 1970. */
  readonly firstAt: number;
  /** Time of the last rejection, in milliseconds since 1970. */
  readonly lastAt: number;
}

/** Result of reloading the configuration. */
export interface ReloadReport extends ConfigChanges {
  /** Certificate files that were renewed and are now in use. */
  readonly certificates: readonly string[];
}

/** Value of a metric with its labels. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Histogram values for one set of labels. */
export interface Distribution {
  readonly labels: Readonly<Record<string, string>>;
  /** Cumulative counts in the order of the bounds. The last count includes all greater values. */
  readonly counts: readonly number[];
  readonly sum: number;
}
