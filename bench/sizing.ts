/**
 * Estimates the size of an installation. The inputs are an operator's numbers and the figures in
 * docs/BENCHMARKS.md, which were measured on two shared cores. It only calculates, and starts no
 * process.
 */

/** Numbers that the operator supplies. */
interface Load {
  readonly minions: number;
  /** Jobs per second. Each job has `width` minions. */
  readonly jobs: number;
  readonly width: number;
  /** Size of a return, in bytes. */
  readonly return: number;
  /** Events per second of all minions together. `event` is the size of an event in bytes. */
  readonly events: number;
  readonly event: number;
  /** Time for which jobs are stored, in hours (`keep_jobs_seconds`). */
  readonly kept: number;
}

/** Estimated size of the installation. */
interface Sizing {
  /** Number of masters. One of them may be unavailable. */
  readonly masters: number;
  /** Share of one processor that each master uses, with all masters available. */
  readonly processor: number;
  /** Memory of each master in bytes, with one master unavailable. */
  readonly memory: number;
  /** Disk space of each master, in bytes. */
  readonly disk: number;
  /** Transactions of the log per second. */
  readonly writes: number;
  /** Traffic that the leader of the log sends, in bytes per second. */
  readonly logTraffic: number;
  /** Traffic between one master and its minions, in bytes per second. */
  readonly minionTraffic: number;
  /** Time until all minions have responded to one job, in seconds. */
  readonly pingAll: number;
  /** Time until all minions have signed in again, in seconds. */
  readonly signInAll: number;
}

/**
 * Figures of docs/BENCHMARKS.md: processor time in seconds, bytes, and rates. If a figure is a
 * range, this is the worse end.
 */
const measured = {
  job: 0.003,
  /** Publication to one subscriber. */
  publication: 26e-6,
  return: 166e-6,
  event: 93e-6,
  /**
   * Processing of a transaction that another member wrote. A member processes 12,000 per second.
   */
  apply: 1 / 12_000,
  signInsPerSecond: 1_120,
  masterBytes: 180e6,
  minionBytes: 12e3,
  /** Size of a row in the log and the store, in addition to its content. */
  rowBytes: 350,
  /** Writes per second with 512 concurrent writes. */
  writesPerSecond: 5_000,
};

/**
 * Share of a processor that is planned for steady load. The rest is for bursts, for clients, and
 * for the minions of a master that has failed.
 */
const steadyShare = 0.5;
/**
 * Maximum number of minions per master. Each minion needs a file descriptor (`LimitNOFILE`), and
 * the start of a master takes longer with more minions.
 */
const minionsPerMaster = 20_000;
const replicas = 3;
const smallestCluster = 3;

/**
 * Returns the estimated size for a load, or `undefined` if one log is not sufficient (see
 * docs/scaling.md).
 */
function sizeOf(load: Load): Sizing | undefined {
  const returns = load.jobs * load.width;
  const writes = load.jobs + returns;
  if (writes > measured.writesPerSecond) return undefined;
  const alone = figuresOf(load, 1);
  const fits = alone.processor <= steadyShare && load.minions <= minionsPerMaster;
  if (fits) return alone;
  for (let masters = smallestCluster; masters <= 16; masters += 1) {
    const figures = figuresOf(load, masters);
    const isEnough = load.minions / (masters - 1) <= minionsPerMaster;
    if (isEnough && figures.processor <= steadyShare) return figures;
  }
  return undefined;
}

function figuresOf(load: Load, masters: number): Sizing {
  const { minions, jobs, width, events, kept } = load;
  const returns = jobs * width;
  const writes = jobs + returns;
  const isCluster = masters > 1;
  const own =
    jobs * measured.job +
    returns * (measured.publication + measured.return) +
    events * measured.event;
  const ofOthers = isCluster ? (writes + events) * measured.apply : 0;
  const left = isCluster ? masters - 1 : 1;
  const row = load.return + measured.rowBytes;
  const perReturn = measured.publication + measured.return;
  return {
    masters,
    processor: own / masters + ofOthers,
    memory: measured.masterBytes + (minions / left) * measured.minionBytes,
    disk: returns * row * kept * 3600,
    writes: isCluster ? writes : 0,
    logTraffic: isCluster ? writes * row * (replicas - 1 + masters) : 0,
    minionTraffic: (returns * (load.return + 700) + events * (load.event + 300)) / masters,
    pingAll: minions * (perReturn / masters + (isCluster ? measured.apply : 0)),
    signInAll: minions / (measured.signInsPerSecond * masters),
  };
}

const defaults: Load = {
  minions: 40_000,
  jobs: 0.002,
  width: 40_000,
  return: 400,
  events: 200,
  event: 500,
  kept: 24,
};

/**
 * Runs `sizing [minions=N] [jobs=N] [width=N] [return=BYTES] [events=N] [event=BYTES]
 * [kept=HOURS]`.
 */
export function printSizing(words: readonly string[], print: (line: string) => void): number {
  const given = new Map(
    words.map((word) => [word.split('=')[0] ?? '', Number(word.split('=')[1])]),
  );
  const wrong = [...given].find(([name, value]) => !(name in defaults && value >= 0));
  if (wrong !== undefined) {
    print(
      `${wrong[0]}: unknown argument; give NAME=NUMBER with the names ${Object.keys(defaults).join(', ')}`,
    );
    return 64;
  }
  const minions = given.get('minions') ?? defaults.minions;
  const load: Load = { ...defaults, width: minions, ...Object.fromEntries(given), minions };
  print(
    Object.entries(load)
      .map(([name, value]) => `${name}=${value}`)
      .join(' '),
  );
  const sizing = sizeOf(load);
  if (sizing === undefined) {
    print('too much for one cluster; divide the minions among several, see docs/scaling.md');
    return 1;
  }
  for (const [name, text] of linesOf(sizing)) print(`${name.padEnd(44)} ${text}`);
  return 0;
}

function linesOf(sizing: Sizing): readonly (readonly [string, string])[] {
  const { masters, processor, memory, disk, writes, logTraffic, minionTraffic } = sizing;
  const log =
    masters === 1
      ? []
      : ([
          ['transactions in the log', `${writes.toFixed(0)}/s`],
          ['sent by the NATS stream leader', `${(logTraffic / 1e6).toFixed(1)} MB/s`],
        ] as const);
  return [
    [
      'masters, if one of them may fail',
      masters === 1 ? '1, which must not fail' : String(masters),
    ],
    ['load of one processor on each master', `${(processor * 100).toFixed(0)} %`],
    ['memory of each master while one is down', `${(memory / 1e9).toFixed(2)} GB`],
    ['disk of each master for stored jobs', `${(disk / 1e9).toFixed(1)} GB`],
    ['traffic of each master with its minions', `${(minionTraffic / 1e6).toFixed(2)} MB/s`],
    ...log,
    ['time of a job on all minions, about', `${sizing.pingAll.toFixed(1)} s`],
    ['time until all minions have signed in again, about', `${sizing.signInAll.toFixed(0)} s`],
  ];
}
