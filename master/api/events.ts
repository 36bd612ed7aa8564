import type { ConfigChanges } from '#config';
import type { WireMap } from '#minion-protocol';

/** An event as every reader sees it. */
export interface MasterEvent {
  readonly tag: string;
  /** Always has `_stamp`: UTC, ISO 8601 with microseconds, without zone. */
  readonly data: WireMap;
  /** Where events are kept to be read again (`saltbridge: event_ring`): what names this one. */
  readonly id?: string;
}

/** A family of values. Names are in the manner of Prometheus; times are in seconds. */
export type MetricFamily =
  | {
      readonly type: 'counter' | 'gauge';
      readonly name: string;
      readonly help: string;
      /** Names of the labels. */
      readonly labels: readonly string[];
      readonly samples: readonly Sample[];
    }
  | {
      readonly type: 'histogram';
      readonly name: string;
      readonly help: string;
      readonly labels: readonly string[];
      /** Upper ends of the buckets. */
      readonly bounds: readonly number[];
      readonly distributions: readonly Distribution[];
    };

/** A refused signal, for whoever asks why something did not happen. */
export interface Denial {
  readonly minion: string;
  readonly tag: string;
  readonly rule: string;
  readonly reason: string;
  /** How often in this burst. */
  readonly count: number;
  /** Milliseconds since 1970. */
  readonly firstAt: number;
  readonly lastAt: number;
}

/** Result of a reload. */
export interface ReloadReport extends ConfigChanges {
  /** Files of certificates that were renewed, and are in force now. */
  readonly certificates: readonly string[];
}

/** A value with its labels. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** How many values there were up to each bound. */
export interface Distribution {
  readonly labels: Readonly<Record<string, string>>;
  /** Cumulative, in the order of the bounds; the last is for all that is greater. */
  readonly counts: readonly number[];
  readonly sum: number;
}
