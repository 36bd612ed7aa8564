import type { KeyInfo, MasterStatus, MinionInfo } from '../api.ts';
import type { ConfigSurvey } from '../config/survey.ts';
import type { KeySurvey } from '../keys/key-survey.ts';
import type { DoctorFinding } from './report.ts';

/** The machine as the checks see it; each member has a default (see `world.ts`). */
export interface DoctorWorld {
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Where the kernel tells of processes: `/proc`. */
  readonly procDirectory: string;
  /** The user whom files should belong to; `undefined`: any single one. */
  readonly uid: number | undefined;
  /** Room on the disk that holds a path. */
  readonly diskOf: (path: string) => Promise<DiskRoom>;
  /** Of Node, without the `v`. */
  readonly nodeVersion: string;
  /** Whether signatures over SHA-1 can be made, as all minions expect them. */
  readonly canSignSha1: () => boolean;
}

/** Room on a disk for users other than root. */
export interface DiskRoom {
  readonly freeBytes: number;
  readonly totalBytes: number;
  readonly freeInodes: number;
  /** 0 on file systems that make them as needed. */
  readonly totalInodes: number;
}

/** A master that answers on its local socket. */
export interface RunningMaster {
  readonly status: MasterStatus;
  readonly keys: readonly KeyInfo[];
  readonly minions: readonly MinionInfo[];
}

/** What the store of a master that does not run says. */
export interface StoreContent {
  /** Highest protocol version proved, by id. */
  readonly pins: ReadonlyMap<string, number>;
  /** When the latest job was made, in milliseconds since 1970; `undefined`: there is none. */
  readonly latestJobAt: number | undefined;
}

/** What is examined: gathered once, before any check. */
export interface Patient {
  readonly config: ConfigSurvey;
  readonly running: RunningMaster | undefined;
  readonly keys: KeySurvey;
  readonly store: StoreContent | undefined;
  readonly world: DoctorWorld;
}

/** A check of one thing. */
export type Check = (patient: Patient) => Promise<readonly DoctorFinding[]>;
