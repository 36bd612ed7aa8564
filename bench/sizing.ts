/**
 * How large an installation has to be, from an operator's numbers and what docs/BENCHMARKS.md has
 * measured on two shared cores. Arithmetic: nothing is started.
 */

/** What an operator knows. */
interface Load {
  readonly minions: number;
  /** Jobs a second, for so many minions each. */
  readonly jobs: number;
  readonly width: number;
  /** Bytes of a return. */
  readonly return: number;
  /** Events a second of all minions, and bytes of one. */
  readonly events: number;
  readonly event: number;
  /** Hours for which jobs are kept (`keep_jobs_seconds`). */
  readonly kept: number;
}

/** What it takes. */
interface Sizing {
  /** Masters, one of which may be away. */
  readonly masters: number;
  /** Of one processor at each master, with all of them there. */
  readonly processor: number;
  /** Bytes at each master with one of them away. */
  readonly memory: number;
  /** Bytes at each master. */
  readonly disk: number;
  /** Transactions a second of the log. */
  readonly writes: number;
  /** Bytes a second that the leader of the log sends. */
  readonly logTraffic: number;
  /** Bytes a second to and from the minions of one master. */
  readonly minionTraffic: number;
  /** Until all minions have answered one job, seconds. */
  readonly pingAll: number;
  /** Until all minions have signed in anew, seconds. */
  readonly signInAll: number;
}

/** Seconds of one processor, bytes and rates, as docs/BENCHMARKS.md has them; the worse of a range. */
const measured = {
  job: 0.003,
  /** To one subscriber. */
  publication: 26e-6,
  return: 166e-6,
  event: 93e-6,
  /** A transaction that another member wrote: 12,000 a second are replayed. */
  apply: 1 / 12_000,
  signInsPerSecond: 1_120,
  masterBytes: 180e6,
  minionBytes: 12e3,
  /** What a row takes beside its content, in the log and in the store. */
  rowBytes: 350,
  /** At 512 in flight. */
  writesPerSecond: 5_000,
};

/** Half a processor is for bursts, for callers, and for the minions of a master that is away. */
const steadyShare = 0.5;
/** File descriptors of a process are one for a minion (`LimitNOFILE`); what a start reads grows with it. */
const minionsPerMaster = 20_000;
const replicas = 3;
const smallestCluster = 3;

/** What a load takes. `undefined`: more than one log carries, see docs/scaling.md. */
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

/** `sizing [minions=N] [jobs=N] [width=N] [return=BYTES] [events=N] [event=BYTES] [kept=HOURS]` */
export function printSizing(words: readonly string[], print: (line: string) => void): number {
  const given = new Map(
    words.map((word) => [word.split('=')[0] ?? '', Number(word.split('=')[1])]),
  );
  const wrong = [...given].find(([name, value]) => !(name in defaults && value >= 0));
  if (wrong !== undefined) {
    print(`${wrong[0]}: expected ${Object.keys(defaults).join('=, ')}= with a number each`);
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
    print('more than one log carries: sites of masters under a hub, see docs/scaling.md');
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
          ['transactions of the log', `${writes.toFixed(0)}/s`],
          ['sent by the leader of the log', `${(logTraffic / 1e6).toFixed(1)} MB/s`],
        ] as const);
  return [
    ['masters, one of which may be away', masters === 1 ? '1, none may be away' : String(masters)],
    ['of one processor at each', `${(processor * 100).toFixed(0)} %`],
    ['memory at each, one being away', `${(memory / 1e9).toFixed(2)} GB`],
    ['disk at each, for jobs that are kept', `${(disk / 1e9).toFixed(1)} GB`],
    ['to and from the minions of each', `${(minionTraffic / 1e6).toFixed(2)} MB/s`],
    ...log,
    ['a job for all is answered within some', `${sizing.pingAll.toFixed(1)} s`],
    ['all have signed in anew within some', `${sizing.signInAll.toFixed(0)} s`],
  ];
}
