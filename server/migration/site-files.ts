import type { Dirent } from 'node:fs';
import { open, readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import {
  engineNames,
  engineOption,
  forwardingEngines,
  type Listening,
  pairsOf,
  reactorPatterns,
  type Settings,
  textsOf,
} from '#config';
import { codeOf, isMissing } from '#runtime';
import type { MigrationFinding } from './finding.ts';
import { isOrchestration, type TemplateFile } from './template-calls.ts';

/** How much of a tree is looked at. */
const maxFiles = 50_000;
const maxDepth = 32;

interface Walk {
  readonly files: readonly string[];
  /** Directories that are there and could not be read. */
  readonly unreadable: readonly string[];
  /** Whether there was more than is looked at. */
  readonly isCut: boolean;
}

/** The files below a directory, sorted; links are followed, each directory once. */
async function walkFiles(directory: string): Promise<Walk> {
  const files: string[] = [];
  const unreadable: string[] = [];
  const seen = new Set<string>();
  let isCut = false;
  const visit = async (folder: string, depth: number): Promise<void> => {
    const entries = await list(folder, seen).catch((error: unknown) => {
      if (!isMissing(error)) unreadable.push(folder);
      return [];
    });
    for (const entry of entries) {
      const file = path.join(folder, entry.name);
      const kind = await kindOf(entry, file);
      if (files.length >= maxFiles || depth >= maxDepth) isCut = true;
      else if (kind === 'directory') await visit(file, depth + 1);
      else if (kind === 'file') files.push(file);
    }
  };
  await visit(directory, 0);
  return { files, unreadable, isCut };
}

/** The first bytes of a file as text; `undefined` if it cannot be read. */
export async function readStart(file: string, bytes: number): Promise<string | undefined> {
  try {
    const handle = await open(file);
    try {
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(bytes), 0, bytes, 0);
      return buffer.toString('utf8', 0, bytesRead);
    } finally {
      await handle.close();
    }
  } catch {
    return undefined;
  }
}

async function list(folder: string, seen: Set<string>): Promise<Dirent[]> {
  const real = await realpath(folder);
  if (seen.has(real)) return [];
  seen.add(real);
  const entries = await readdir(folder, { withFileTypes: true });
  return entries
    .filter(({ name }) => name !== '.git')
    .sort((left, right) => (left.name < right.name ? -1 : 1));
}

/** A link is what it leads to; one that leads nowhere, a pipe or a device is nothing. */
async function kindOf(entry: Dirent, file: string): Promise<'file' | 'directory' | 'nothing'> {
  const target = entry.isSymbolicLink() ? await stat(file).catch(() => undefined) : entry;
  if (target?.isDirectory()) return 'directory';
  return target?.isFile() ? 'file' : 'nothing';
}

// The directories that hold a site's files.

/** A directory of `file_roots`, `pillar_roots` or `thorium_roots`. */
export interface Root {
  readonly directory: string;
  readonly saltenv: string;
  /** Where it is named; the main file's name and 0 for Salt's default. */
  readonly file: string;
  readonly line: number;
}

/** [salt/config/__init__.py DEFAULT_MASTER_OPTS of 3007.0] */
const defaults = {
  file_roots: '/srv/salt',
  pillar_roots: '/srv/pillar',
  thorium_roots: '/srv/thorium',
} as const;

/** The directories that an option names, or Salt's default. Special ones (`__env__`) are left out. */
export function rootsOf(settings: Settings, option: keyof typeof defaults): Root[] {
  const setting = settings.get(option);
  const { file, line } = setting?.origin ?? { file: '', line: 0 };
  if (setting === undefined || setting.value === null) {
    return [{ directory: defaults[option], saltenv: 'base', file, line }];
  }
  return pairsOf(setting.value).flatMap(([saltenv, directories]) =>
    textsOf(directories)
      .filter((directory) => directory.startsWith('/'))
      .map((directory) => ({ directory, saltenv, file, line })),
  );
}

// Renderers that the files of a tree ask for in their first line.

const firstLineBytes = 512;
const namedFiles = 5;

/** How pillar may be written. */
const servedPipelines: ReadonlySet<string> = new Set([
  'jinja|yaml',
  'jinja|json',
  'yaml',
  'json',
  'yaml_jinja',
  'json_jinja',
]);

/** Who renders the files of a tree. */
export type RenderedBy = 'minions' | 'master';

/** One finding for each pipeline such as `yaml|gpg`, and for what could not be read. */
export async function rendererFindings(root: Root, by: RenderedBy): Promise<MigrationFinding[]> {
  const { files, unreadable, isCut } = await walkFiles(root.directory);
  const unread = [...unreadable];
  const byPipeline = new Map<string, string[]>();
  for (const file of files.filter((name) => name.endsWith('.sls'))) {
    const start = await readStart(file, firstLineBytes);
    if (start === undefined) {
      unread.push(file);
      continue;
    }
    const pipeline = pipelineOf(start);
    if (pipeline !== undefined)
      byPipeline.set(pipeline, [...(byPipeline.get(pipeline) ?? []), file]);
  }
  return [
    ...[...byPipeline].map(([pipeline, found]) => finding(pipeline, found, by)),
    ...unread.map((file) => unreadableFinding(file)),
    ...(isCut ? [cutFinding(root.directory)] : []),
  ];
}

/** `#!jinja|yaml|gpg`: the renderers in order; options behind `?` and blanks are left out. */
function pipelineOf(text: string): string | undefined {
  const [, line = ''] = /^#!([^\r\n]*)/.exec(text) ?? [];
  // A script's own line names a program by its path.
  if (line === '' || line.trimStart().startsWith('/')) return undefined;
  const names = line.split('|').map((part) => /^\s*([\w.]+)/.exec(part)?.[1] ?? '');
  return names.every((name) => name !== '') ? names.join('|') : undefined;
}

function cutFinding(file: string): MigrationFinding {
  return {
    outcome: 'ignored',
    kind: 'file',
    name: 'large tree',
    file,
    line: 0,
    meaning: 'The tree has more files, or is deeper, than the check looks at.',
    remedy: 'Check its parts by themselves.',
  };
}

function finding(pipeline: string, files: readonly string[], by: RenderedBy): MigrationFinding {
  const [file = ''] = files;
  const others = files.length > 1 ? ` (${files.length} files${listed(files.slice(1))})` : '';
  const place = { kind: 'part', name: `#!${pipeline}`, file, line: 1 } as const;
  if (by === 'master' && servedPipelines.has(pipeline)) {
    return {
      ...place,
      outcome: 'honoured',
      meaning: `The master renders pillar so${others}.`,
      remedy: '',
    };
  }
  return by === 'minions'
    ? {
        ...place,
        outcome: 'honoured',
        meaning: `Minions render states themselves${others}.`,
        remedy: '',
      }
    : {
        ...place,
        outcome: 'refused',
        meaning: `Pillar is rendered by Jinja, YAML and JSON only${others}.`,
        remedy: pipeline.split('|').includes('gpg')
          ? 'Provide the pillar by a program, and let that decrypt what gpg had encrypted.'
          : 'Write it as jinja|yaml, or provide the pillar by a program.',
      };
}

function listed(files: readonly string[]): string {
  const names = files.slice(0, namedFiles).join(', ');
  return `: also ${names}${files.length > namedFiles ? ', …' : ''}`;
}

// Tags in files. Templates in them are not rendered.

const maxFormulaBytes = 262_144;

/** `- match: my/tag` in a state of `reg.*` [salt/thorium/reg.py]. */
const matchLine = /^\s*-?\s*match:\s*(['"]?)(.+?)\1\s*(?:#.*)?$/;

/** `salt.wait_for_event:` in an orchestration [salt/states/saltmod.py], and what stands below it. */
const waitLine = /^(\s*)salt\.wait_for_event:\s*$/;
const nameLine = /^\s*-\s*name:\s*(['"]?)(.+?)\1\s*(?:#.*)?$/;

/** The patterns in every formula below `thorium_roots`. */
async function thoriumPatterns(settings: Settings): Promise<Listening[]> {
  return patternsBelow(settings, 'thorium_roots', 'thorium', matchesIn);
}

/** The patterns that orchestrations below `file_roots` wait for. */
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

// Python code that salt-master would load, and that which its minions load.

/** Kinds of modules that only a master runs [salt.loader of 3007.0]. */
const masterKinds: ReadonlySet<string> = new Set([
  'auth',
  'cache',
  'cloud',
  'clouds',
  'engines',
  'fileserver',
  'netapi',
  'pillar',
  'queues',
  'returners',
  'roster',
  'runners',
  'thorium',
  'tokens',
  'tops',
  'wheel',
  'wrapper',
]);

/** `_modules`, `_runners` and their like at the top of a file root. */
export async function customModuleFindings(root: string): Promise<MigrationFinding[]> {
  const directories = await directoriesIn(root);
  const findings: MigrationFinding[] = [];
  for (const name of directories.filter((entry) => entry.startsWith('_'))) {
    const directory = path.join(root, name);
    const files = await pythonFiles(directory);
    if (files === 'unreadable') findings.push(unreadableFinding(directory));
    else if (files.length > 0) findings.push(customFinding(name, directory, files));
  }
  return findings;
}

/** Folders of modules below `extension_modules` or one of `module_dirs`. */
export async function extensionFindings(root: string): Promise<MigrationFinding[]> {
  const findings: MigrationFinding[] = [];
  for (const name of await directoriesIn(root)) {
    const directory = path.join(root, name);
    const files = await pythonFiles(directory);
    if (files === 'unreadable') findings.push(unreadableFinding(directory));
    else if (files.length > 0) findings.push(masterFinding(name, directory, files));
  }
  return findings;
}

function customFinding(
  name: string,
  directory: string,
  files: readonly string[],
): MigrationFinding {
  const kind = name.slice(1);
  if (masterKinds.has(kind) && kind !== 'returners') return masterFinding(name, directory, files);
  const meaning =
    kind === 'returners'
      ? 'Minions load them; a master that used one for its jobs or events does not.'
      : 'Minions load them, as before.';
  return {
    outcome: 'honoured',
    kind: 'part',
    name,
    file: directory,
    line: 0,
    meaning: `${meaning} In use: ${files.join(', ')}.`,
    remedy: '',
  };
}

function masterFinding(
  name: string,
  directory: string,
  files: readonly string[],
): MigrationFinding {
  return {
    outcome: 'refused',
    kind: 'part',
    name,
    file: directory,
    line: 0,
    meaning: `Python code of the master does not run. In use: ${files.join(', ')}.`,
    remedy: 'Write what it does as a program that uses the library, or keep a salt-master for it.',
  };
}

async function directoriesIn(root: string): Promise<string[]> {
  const entries = await readdir(root, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
    .map(({ name }) => name)
    .sort();
}

async function pythonFiles(directory: string): Promise<string[] | 'unreadable'> {
  try {
    const names = await readdir(directory);
    return names.filter((name) => /\.(py|pyx|so|zip)$/.test(name) && name !== '__init__.py').sort();
  } catch (error) {
    return codeOf(error) === 'ENOTDIR' ? [] : 'unreadable';
  }
}

/** Everything that listens: the reactor, engines, returners of events, Thorium, orchestrations. */
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

/** A returner of events has all of them, or those of its list. */
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

/** The finding about something that could not be read. */
export function unreadableFinding(file: string): MigrationFinding {
  return {
    outcome: 'refused',
    kind: 'file',
    name: 'unreadable',
    file,
    line: 0,
    meaning: 'It could not be read, so nothing is known of what it uses.',
    remedy: 'Run the check as a user who may read it.',
  };
}

/** Files whose templates may have calls: those of pillar, and orchestrations below `file_roots`. */
export async function masterTemplates(settings: Settings): Promise<TemplateFile[]> {
  const found: TemplateFile[] = [];
  for (const option of ['pillar_roots', 'file_roots'] as const) {
    for (const { directory } of rootsOf(settings, option)) {
      const { files } = await walkFiles(directory);
      for (const file of files.filter((name) => templateName.test(name))) {
        const text = (await readStart(file, maxFormulaBytes)) ?? '';
        if (option === 'pillar_roots' || isOrchestration(text)) found.push({ file, text });
      }
    }
  }
  return found;
}

/** Files that Jinja renders, or that templates import. */
const templateName = /\.(?:sls|jinja2?|j2|ya?ml|json)$/;
