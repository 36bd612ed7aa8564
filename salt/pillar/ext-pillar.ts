/** Pillar from elsewhere, put over that of the files in the order in which it is listed. */

import type { Logger } from 'pino';
import { type ExtPillarEntry, type GitPillarEntry, pillarAddressProblem } from '#config';
import { type ExtPillar, MasterError, type PillarRequest, type PillarTextFormat } from '#master';
import type { FactMap } from '#minion-protocol';
import type { PlainData } from '#template';
import { DiskFiles, HiddenDirectories } from '../file-trees/disk-files.ts';
import {
  fromWire,
  isPillarMap,
  type MergeOptions,
  mergePillar,
  type PillarAnswer,
  type PillarMap,
  type PillarSource,
  toWirePillar,
} from '../render/pillar-data.ts';
import { readData } from '../render/render-task.ts';
import type { ParsedFileCache } from '../render/renderer.ts';

/** Pillar that is put over, or under, that of the files; what follows from grains is told apart. */
export interface ExtPillarLayer {
  /** In errors and in the log. */
  readonly name: string;
  /** `undefined`: nothing. */
  answer(request: PillarRequest): Promise<PillarAnswer | undefined>;
  /** Forgets what is kept for a minion. */
  forget?(id: string): void;
}

/** A source that grains are not told to. */
function layerOf(source: ExtPillar): ExtPillarLayer {
  return {
    name: source.name,
    answer: async ({ id, saltenv, pillarenv }) => {
      const pillar = await source.provide({ id, saltenv, pillarenv });
      return pillar && { pillar, proven: pillar };
    },
  };
}

export interface ExtPillarDeps extends MergeOptions {
  readonly sources: readonly (ExtPillar | ExtPillarLayer)[];
  /** `ext_pillar_first`: the files lie over the sources, and see what they gave. Default false. */
  readonly areFirst?: boolean;
  readonly log: Logger;
}

/** A source of pillar with others over it, or under it. */
export function withExtPillar(base: PillarSource, parts: ExtPillarDeps): PillarSource {
  if (parts.sources.length === 0) return base;
  return parts.areFirst === true ? withExtBelow(base, parts) : withExtAbove(base, parts);
}

function withExtAbove(base: PillarSource, parts: ExtPillarDeps): PillarSource {
  const compile = base.compile?.bind(base);
  return {
    provide: async (request, lower) => {
      const [answer, { layers, errors }] = await Promise.all([
        base.provide(request, lower),
        askAll(parts, request),
      ]);
      return joinAnswers([answer, ...layers], errors, parts);
    },
    ...(compile === undefined ? {} : { compile }),
  };
}

export interface AddedPillarDeps extends ExtPillarDeps {
  /** Further sources over those. Extensions add theirs while they are opened. */
  readonly added: readonly ExtPillar[];
}

/** Puts sources over a pillar. Which there are is decided at the first request. */
export function withAddedPillar(base: PillarSource, parts: AddedPillarDeps): PillarSource {
  let joined: PillarSource | undefined;
  const whole = (): PillarSource => {
    joined ??= withExtPillar(base, { ...parts, sources: [...parts.sources, ...parts.added] });
    return joined;
  };
  const compile = base.compile?.bind(base);
  return {
    provide: (request, lower) => whole().provide(request, lower),
    ...(compile === undefined ? {} : { compile }),
  };
}

function withExtBelow(base: PillarSource, parts: ExtPillarDeps): PillarSource {
  const compile = base.compile?.bind(base);
  const lowerOf = (layers: readonly PillarAnswer[]): PillarMap =>
    mergeAll(
      layers.map(({ pillar }) => asMap(pillar)),
      parts,
    );
  return {
    provide: async (request) => {
      const { layers, errors } = await askAll(parts, request);
      const answer = await base.provide(request, lowerOf(layers));
      return joinAnswers([...layers, answer], errors, parts);
    },
    ...(compile === undefined
      ? {}
      : {
          compile: async (request) =>
            compile(request, lowerOf((await askAll(parts, request)).layers)),
        }),
  };
}

interface Layers {
  readonly layers: readonly PillarAnswer[];
  readonly errors: readonly string[];
}

async function askAll({ sources, log }: ExtPillarDeps, request: PillarRequest): Promise<Layers> {
  const errors: string[] = [];
  const given = await Promise.all(
    sources.map(async (source) => {
      try {
        return await ('answer' in source ? source : layerOf(source)).answer(request);
      } catch (err) {
        log.error({ minion: request.id, source: source.name, err }, 'external pillar failed');
        errors.push(`Failed to load ext_pillar ${source.name}. Please see master log for details.`);
        return undefined;
      }
    }),
  );
  return { layers: given.filter((answer) => answer !== undefined), errors };
}

/** Answers over each other; what does not follow from grains is merged apart where it differs. */
function joinAnswers(
  answers: readonly PillarAnswer[],
  errors: readonly string[],
  merge: MergeOptions,
): PillarAnswer {
  const join = (pick: (answer: PillarAnswer) => FactMap): FactMap =>
    joined(
      answers.map((answer) => asMap(pick(answer))),
      errors,
      merge,
    );
  const pillar = join((answer) => answer.pillar);
  const isSame = answers.every((answer) => answer.proven === answer.pillar);
  return { pillar, proven: isSame ? pillar : join((answer) => answer.proven) };
}

/** @param errors put behind those that are there */
function joined(
  maps: readonly PillarMap[],
  errors: readonly string[],
  merge: MergeOptions,
): FactMap {
  const whole = mergeAll(maps, merge);
  if (errors.length === 0) return toWirePillar(whole);
  const before = whole.get('_errors');
  const all = [...(Array.isArray(before) ? before : []), ...errors];
  return toWirePillar(new Map<PlainData, PlainData>([...whole, ['_errors', all]]));
}

function mergeAll([first, ...others]: readonly PillarMap[], merge: MergeOptions): PillarMap {
  return others.reduce((lower, upper) => mergePillar(lower, upper, merge), first ?? new Map());
}

function asMap(pillar: FactMap): PillarMap {
  const data = fromWire(pillar);
  return isPillarMap(data) ? data : new Map();
}

/** Reads texts as data. */
export type TextReader = Pick<ParsedFileCache, 'read'>;

/** Reads on the thread that it is asked on, whatever that takes. */
const readAtOnce: TextReader = { read: async (task) => readData(task) };

/** @throws TemplateError; MasterError ERR_PILLAR_FILE for what is no map, ERR_RENDER_GIVEN_UP */
async function readPillarText(
  bytes: Uint8Array,
  format: PillarTextFormat,
  reader: TextReader,
): Promise<FactMap> {
  const text = new TextDecoder().decode(bytes);
  const name = `external ${format}`;
  const data = await reader.read({ kind: 'read', format, text, name });
  if (isPillarMap(data)) return toWirePillar(data);
  throw new MasterError('ERR_PILLAR_FILE', `${name}: expected a map`);
}

/** A directory with a file for each minion. */
export interface ExtPillarFilesOptions {
  /** Absolute. In it `<id>.json`, `<id>.yaml` or `<id>.yml`; the first that is there counts. */
  readonly directory: string;
  /** Largest file, bytes. Default 4 MiB. */
  readonly maxBytes?: number;
}

/**
 * Pillar of files, one for each minion. They are data: nothing in them is rendered. A minion
 * without a file gets nothing from it, and links that leave the directory lead nowhere.
 */
export function extPillarFiles(options: ExtPillarFilesOptions): Promise<ExtPillar> {
  return openExtPillarFiles(options, readAtOnce);
}

/** The same with a reader of one's own. */
async function openExtPillarFiles(
  { directory, maxBytes = 4 * 1024 * 1024 }: ExtPillarFilesOptions,
  reader: TextReader,
): Promise<ExtPillar> {
  const files = new DiskFiles(await HiddenDirectories.open([]));
  const read = async (name: string): Promise<FactMap | undefined> => {
    const found = await files.find(directory, name);
    if (found === undefined) return undefined;
    const { size } = found.stat;
    if (size > maxBytes) {
      throw new MasterError('ERR_PILLAR_FILE', `the file has more than ${maxBytes} bytes`);
    }
    const format = name.endsWith('.json') ? 'json' : 'yaml';
    return readPillarText(await found.read(0, size), format, reader);
  };
  return {
    name: 'files',
    provide: async ({ id }) => {
      // An id is a name here, whatever else ids may be.
      if (/[/\0]/.test(id)) return undefined;
      for (const ending of ['json', 'yaml', 'yml']) {
        const pillar = await read(`${id}.${ending}`);
        if (pillar !== undefined) return pillar;
      }
      return undefined;
    },
  };
}

/** A service that answers with a minion's pillar. */
export interface ExtPillarHttpOptions {
  /** With `{id}` where the minion's id stands, behind the host: `https://cmdb.test/pillar/{id}`. */
  readonly url: string;
  /** The hosts that may be asked, as in the address, with the port if it is named there. */
  readonly hosts: readonly string[];
  /** Default `json`. */
  readonly format?: PillarTextFormat;
  /** Sent with each request, for instance `authorization`. Default: none. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Milliseconds for the whole answer. Default 10,000. */
  readonly timeoutMs?: number;
  /** Largest answer, bytes. Default 4 MiB. */
  readonly maxBytes?: number;
  /** Whether `http:` will do, as for a service on the same host. Default false. */
  readonly allowsPlainHttp?: boolean;
}

/**
 * Pillar from a service. 404 and 204 mean that the minion has none there; every other answer but
 * 200, a redirection among them, is a failure.
 * @throws MasterError ERR_ARGS for an address that may not be asked
 */
export function extPillarHttp(options: ExtPillarHttpOptions): ExtPillar {
  return openExtPillarHttp(options, readAtOnce);
}

/** The same with a reader of one's own. @throws MasterError ERR_ARGS */
function openExtPillarHttp(options: ExtPillarHttpOptions, reader: TextReader): ExtPillar {
  const {
    url,
    format = 'json',
    headers = {},
    timeoutMs = 10_000,
    maxBytes = 4 * 1024 * 1024,
  } = options;
  const problem = pillarAddressProblem(options);
  if (problem !== undefined) throw new MasterError('ERR_ARGS', `url: ${problem}`);
  const { host } = new URL(url.replaceAll('{id}', 'id'));
  return {
    name: `http ${host}`,
    provide: async ({ id }) => {
      const address = url.replaceAll('{id}', () => encodeURIComponent(id));
      const signal = AbortSignal.timeout(timeoutMs);
      const response = await answered(fetch(address, { headers, signal, redirect: 'error' }));
      if (response.status === 404 || response.status === 204) {
        await response.body?.cancel();
        return undefined;
      }
      if (response.status !== 200) {
        await response.body?.cancel();
        throw new MasterError('ERR_PILLAR_SOURCE', `the service answered ${response.status}`);
      }
      return readPillarText(await answered(readBounded(response, maxBytes)), format, reader);
    },
  };
}

/** @throws MasterError ERR_PILLAR_SOURCE */
async function answered<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (cause) {
    if (cause instanceof MasterError) throw cause;
    throw new MasterError(
      'ERR_PILLAR_SOURCE',
      'the service cannot be asked, or does not answer in time',
      { cause },
    );
  }
}

async function readBounded({ body }: Response, maxBytes: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of body ?? []) {
    bytes += part.length;
    if (bytes > maxBytes) {
      throw new MasterError('ERR_PILLAR_SOURCE', `the answer has more than ${maxBytes} bytes`);
    }
    parts.push(part);
  }
  return Buffer.concat(parts);
}

// Sources from the option `ext_pillar`.

/** How the remotes of an entry `git` are opened. */
export type GitPillarOpener = (entry: GitPillarEntry) => Promise<readonly ExtPillarLayer[]>;

/** Opens them in their order; each has the name of its module. */
export async function openExtPillars(
  entries: readonly ExtPillarEntry[],
  reader: TextReader,
  openGit: GitPillarOpener,
): Promise<ExtPillarLayer[]> {
  const layers = await Promise.all(
    entries.map(async (entry) => {
      if (entry.module === 'git') return openGit(entry);
      const source = await openEntry(entry, reader);
      return [{ ...layerOf(source), name: entry.module }];
    }),
  );
  return layers.flat();
}

async function openEntry(
  entry: Exclude<ExtPillarEntry, GitPillarEntry>,
  reader: TextReader,
): Promise<ExtPillar> {
  if (entry.module === 'minion_files') return openExtPillarFiles(entry, reader);
  const { timeout = 10, allowPlainHttp = false, ...options } = entry;
  return openExtPillarHttp(
    { ...options, timeoutMs: timeout * 1000, allowsPlainHttp: allowPlainHttp },
    reader,
  );
}
