/**
 * Compares another checkout of this project with this one. Their benchmarks run alternately on the
 * same machine, so that other load of the machine affects both.
 */
import { execFile, execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const here = fileURLToPath(new URL('../', import.meta.url));

type Figures = ReadonlyMap<string, number>;

/** Comparison of one figure. A ratio above 1 means that the new checkout is better. */
interface Comparison {
  readonly name: string;
  readonly median: number;
  /** Lower end of the 95 % confidence interval of the median. */
  readonly from: number;
  readonly to: number;
}

/**
 * Runs `npm run bench -- <bench>` alternately in both checkouts, and prints the ratios of their
 * figures. The order of the checkouts changes with each pair of runs.
 * @param other - root directory of the other checkout
 */
export async function runComparison(
  other: string,
  rounds: number,
  bench: readonly string[],
  print: (line: string) => void,
): Promise<void> {
  const [oldBenches, newBenches] = [buildBenches(other), buildBenches(here)];
  const pairs: { readonly old: Figures; readonly now: Figures }[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const isOldFirst = round % 2 === 0;
    const first = await figuresOf(isOldFirst ? oldBenches : newBenches, bench);
    const second = await figuresOf(isOldFirst ? newBenches : oldBenches, bench);
    pairs.push(isOldFirst ? { old: first, now: second } : { old: second, now: first });
    print(`round ${round + 1} of ${rounds}`);
  }
  const names = [...(pairs[0]?.now.keys() ?? [])];
  print(`\n${'new against old; above 1 is better'.padEnd(36)} median  95 % interval`);
  for (const name of names) {
    const { median, from, to } = compare(name, pairs);
    print(`${name.padEnd(36)} ${median.toFixed(3)}   ${from.toFixed(3)} to ${to.toFixed(3)}`);
  }
}

function compare(
  name: string,
  pairs: readonly { readonly old: Figures; readonly now: Figures }[],
): Comparison {
  const ratios = pairs
    .map(({ old, now }) => {
      const ratio = (now.get(name) ?? Number.NaN) / (old.get(name) ?? Number.NaN);
      return name.endsWith('PerSecond') ? ratio : 1 / ratio;
    })
    .sort((a, b) => a - b);
  const middle = (ratios.length - 1) / 2;
  const median = ((ratios[Math.floor(middle)] ?? 0) + (ratios[Math.ceil(middle)] ?? 0)) / 2;
  const rank = rankOfInterval(ratios.length);
  const from = ratios[rank] ?? Number.NaN;
  const to = ratios[ratios.length - 1 - rank] ?? Number.NaN;
  return { name, median, from, to };
}

/**
 * Returns the rank of the values that limit the confidence interval of the median. Order statistics
 * need no assumption about the distribution of the values (binomial distribution with p = 1/2).
 */
function rankOfInterval(count: number): number {
  let rank = 0;
  let tail = 0;
  let term = 2 ** -count;
  while (tail + term <= 0.025) {
    tail += term;
    rank += 1;
    term *= (count - rank + 1) / rank;
  }
  return Math.max(0, rank - 1);
}

/**
 * Builds a checkout.
 * @returns path of its built benchmarks, which use the same bundles as the published package
 */
function buildBenches(root: string): string {
  const setup = path.join(root, 'scripts', 'setup.js');
  const hasSetup = existsSync(setup);
  const build = hasSetup ? [setup] : [path.join(root, 'scripts', 'build.js'), '--bench'];
  execFileSync(process.execPath, build, { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] });
  return path.join(root, 'dist', ...(hasSetup ? ['bench', 'main.js'] : ['bench-main.js']));
}

async function figuresOf(program: string, bench: readonly string[]): Promise<Figures> {
  const { stdout } = await promisify(execFile)(process.execPath, [program, ...bench], {
    cwd: path.dirname(program),
    maxBuffer: 2 ** 26,
  });
  const lines = stdout.matchAll(/^(\w+) +(\d+(?:\.\d+)?)$/gm);
  return new Map(Array.from(lines, ([, name = '', value]) => [name, Number(value)]));
}
