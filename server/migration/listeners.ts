/**
 * Finds the event tags that the configuration of a salt-master, its orchestrations and similar
 * files listen to. Templates in the files are searched without being rendered.
 */

import {
  engineNames,
  engineOption,
  forwardingEngines,
  type Listening,
  reactorPatterns,
  type Settings,
  textsOf,
} from '#config';
import { maxFormulaBytes, readStart, rootsOf, walkFiles } from './site-files.ts';

/** Matches `- match: my/tag` in a state of `reg.*` [salt/thorium/reg.py]. */
const matchLine = /^\s*(?:-\s*)?match:(.*)/;

/**
 * Matches `salt.wait_for_event:` in an orchestration [salt/states/saltmod.py]. Its arguments are on
 * the following lines.
 */
const waitLine = /^(\s*)salt\.wait_for_event:\s*$/;
const nameLine = /^\s*-\s*name:(.*)/;

/** Returns the tag patterns in the formulas below `thorium_roots`. */
async function thoriumPatterns(settings: Settings): Promise<Listening[]> {
  return patternsBelow(settings, 'thorium_roots', 'thorium', matchesIn);
}

/** Returns the tag patterns of events that orchestrations below `file_roots` wait for. */
async function awaitedPatterns(settings: Settings): Promise<Listening[]> {
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
    const pattern = scalarOf(matchLine.exec(line)?.[1]);
    return pattern === '' ? [] : [[index + 1, pattern]];
  });
}

/** Returns the value of a line of YAML without quotes and comment. Returns `''` if it has none. */
function scalarOf(value = ''): string {
  const text = value.trim();
  const [quote = ''] = text;
  const isQuoted = quote === '"' || quote === "'";
  const end = isQuoted ? text.indexOf(quote, 1) : text.search(/(?:^|\s)#/);
  return text.slice(isQuoted ? 1 : 0, end < 0 ? undefined : end).trimEnd();
}

function awaitedIn(lines: readonly string[]): Found {
  return lines.flatMap((line, index) => {
    const indent = waitLine.exec(line)?.[1];
    if (indent === undefined) return [];
    const name = argumentsBelow(lines, index, indent.length)
      .map((text) => scalarOf(nameLine.exec(text)?.[1]))
      .find((text) => text !== '');
    return name === undefined ? [] : [[index + 1, name]];
  });
}

/**
 * Returns the lines that contain the list of a function's arguments. The dashes of the list may
 * have the same indentation as the function name.
 */
function argumentsBelow(lines: readonly string[], start: number, indent: number): string[] {
  const below = lines.slice(start + 1);
  const end = below.findIndex((line) => {
    const own = line.search(/\S/);
    return own !== -1 && (own < indent || (own === indent && line[own] !== '-'));
  });
  return below.slice(0, end === -1 ? below.length : end);
}

/**
 * Returns all listeners for events: reactor files, engines, event returners (`event_return`),
 * Thorium and orchestrations.
 */
export async function findListeners(settings: Settings): Promise<Listening[]> {
  const unserved = [
    ...enginePatterns(settings),
    ...eventReturnPatterns(settings),
    ...(usesThorium(settings) ? await thoriumPatterns(settings) : []),
  ];
  return [
    ...reactorPatterns(settings),
    ...unserved.map((it) => ({ ...it, isUnserved: true as const })),
    ...(await awaitedPatterns(settings)),
  ];
}

function usesThorium(settings: Settings): boolean {
  return engineNames(settings).includes('thorium');
}

/**
 * Returns the tag patterns of event returners: those in `event_return_whitelist`, or a pattern for
 * all events.
 */
function eventReturnPatterns(settings: Settings): Listening[] {
  const { value, origin } = settings.get('event_return') ?? {};
  const names = textsOf(value).filter((name) => name !== '');
  if (origin === undefined || names.length === 0) return [];
  const listed = textsOf(settings.get('event_return_whitelist')?.value);
  const patterns = listed.length > 0 ? listed : ['*'];
  const listener = `event_return ${names.join(', ')}`;
  return patterns.map((pattern) => ({ pattern, listener, file: origin.file, line: origin.line }));
}

function enginePatterns(settings: Settings): Listening[] {
  const { value, origin } = settings.get('engines') ?? {};
  if (origin === undefined) return [];
  const { file, line } = origin;
  return engineNames(settings)
    .filter((name) => forwardingEngines.has(name))
    .flatMap((name) => {
      const tags = textsOf(engineOption(value, name, 'tags'));
      const patterns = name === 'http_logstash' && tags.length > 0 ? tags : ['*'];
      return patterns.map((pattern) => ({ pattern, listener: `engine ${name}`, file, line }));
    });
}
