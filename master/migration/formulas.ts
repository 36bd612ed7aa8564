/** Files that say themselves which tags they wait for. Templates in them are not rendered. */
import type { Settings } from '../config/settings.ts';
import type { Listening } from './listeners.ts';
import { rootsOf } from './roots.ts';
import { readStart, walkFiles } from './walk.ts';

const maxFormulaBytes = 262_144;

/** `- match: my/tag` in a state of `reg.*` [salt/thorium/reg.py]. */
const matchLine = /^\s*-?\s*match:\s*(['"]?)(.+?)\1\s*(?:#.*)?$/;

/** `salt.wait_for_event:` in an orchestration [salt/states/saltmod.py], and what stands below it. */
const waitLine = /^(\s*)salt\.wait_for_event:\s*$/;
const nameLine = /^\s*-\s*name:\s*(['"]?)(.+?)\1\s*(?:#.*)?$/;

/** The patterns in every formula below `thorium_roots`. */
export async function thoriumPatterns(settings: Settings): Promise<Listening[]> {
  return patternsBelow(settings, 'thorium_roots', 'thorium', matchesIn);
}

/** The patterns that orchestrations below `file_roots` wait for. */
export async function awaitedPatterns(settings: Settings): Promise<Listening[]> {
  return patternsBelow(settings, 'file_roots', 'salt.wait_for_event', awaitedIn);
}

type Found = readonly (readonly [line: number, pattern: string])[];

async function patternsBelow(
  settings: Settings,
  option: 'thorium_roots' | 'file_roots',
  listener: string,
  patternsIn: (lines: readonly string[]) => Found,
): Promise<Listening[]> {
  const found: Listening[] = [];
  for (const { directory } of rootsOf(settings, option)) {
    const { files } = await walkFiles(directory);
    for (const file of files.filter((name) => name.endsWith('.sls'))) {
      const text = (await readStart(file, maxFormulaBytes)) ?? '';
      for (const [line, pattern] of patternsIn(text.split('\n'))) {
        found.push({ pattern, listener, file, line });
      }
    }
  }
  return found;
}

function matchesIn(lines: readonly string[]): Found {
  return lines.flatMap((line, index) => {
    const pattern = matchLine.exec(line)?.[2];
    return pattern === undefined ? [] : [[index + 1, pattern]];
  });
}

function awaitedIn(lines: readonly string[]): Found {
  return lines.flatMap((line, index) => {
    const indent = waitLine.exec(line)?.[1];
    if (indent === undefined) return [];
    const name = argumentsBelow(lines, index, indent.length)
      .map((text) => nameLine.exec(text)?.[2])
      .find((text) => text !== undefined);
    return name === undefined ? [] : [[index + 1, name]];
  });
}

/** The lines of the function's list; its dashes may stand as far to the left as its name. */
function argumentsBelow(lines: readonly string[], start: number, indent: number): string[] {
  const below = lines.slice(start + 1);
  const end = below.findIndex((line) => {
    const own = line.search(/\S/);
    return own !== -1 && (own < indent || (own === indent && line[own] !== '-'));
  });
  return below.slice(0, end === -1 ? below.length : end);
}
