import { open, readdir, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { RE2JS } from 're2js';
import type { LiveConfig } from '#config';
import { pythonStr, type WireValue } from '#minion-protocol';
import { isMissing } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';

/**
 * What Python's `str()` makes of a grain, which is what Salt compares with the lines of
 * `autosign_grains_dir`. `undefined` for values that should match nothing: nil, maps, bytes and the like.
 */
function pythonText(value: WireValue | undefined): string | undefined {
  const isMeant = Array.isArray(value) || (value !== null && typeof value !== 'object');
  return isMeant && value !== undefined ? pythonStr(value) : undefined;
}

/** The lines of a file of {@link compileSignRules}. */
export interface SignRules {
  matches(id: string): boolean;
  /** Lines (1 is the first) that were meant as regular expressions and cannot be read. */
  readonly unreadable: readonly number[];
}

/**
 * Compiles the text of an `autosign_file` or `autoreject_file` [WIRE 7.6]: an expression a line,
 * which matches as a glob or as a regular expression of the whole id. Salt leaves alternatives
 * (`a|b`) open at their inner ends; here they are closed too.
 */
function compileSignRules(text: string): SignRules {
  const tests: ((id: string) => boolean)[] = [];
  const unreadable: number[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    const expression = line.trim();
    if (expression === '' || expression.startsWith('#')) continue;
    tests.push(compileGlob(expression));
    if (/^[\w-]+$/.test(expression)) continue; // as an expression it means the same
    const regex = tryRegex(expression);
    if (regex !== undefined) tests.push((id) => regex.matches(id));
    // Most globs are no expressions; what begins a group with a flag was meant as one.
    else if (expression.includes('(?')) unreadable.push(index + 1);
  }
  return { matches: (id) => tests.some((test) => test(id)), unreadable };
}

function tryRegex(expression: string): RE2JS | undefined {
  try {
    return RE2JS.compile(expression);
  } catch {
    return undefined;
  }
}

/** A file that decides about keys: its text, or why it is not to be believed. */
type TrustedFile =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly reason: 'missing' | 'unreadable' | 'writable' };

/** Reads a file unless others (or its group, without `groupMayWrite`) could write to it. */
async function readTrustedFile(file: string, groupMayWrite: boolean): Promise<TrustedFile> {
  try {
    const handle = await open(file);
    try {
      const { mode } = await handle.stat();
      const forbidden = groupMayWrite ? 0o002 : 0o022;
      if ((mode & forbidden) !== 0) return { ok: false, reason: 'writable' };
      return { ok: true, text: await handle.readFile('utf8') };
    } finally {
      await handle.close();
    }
  } catch (error) {
    return { ok: false, reason: isMissing(error) ? 'missing' : 'unreadable' };
  }
}

/** Options of {@link openAutoAccept}; those of the master's configuration. */
export interface AutoAcceptOptions {
  readonly pkiDir: string;
  readonly autoAccept: boolean;
  readonly autosignFile: string | null;
  readonly autorejectFile: string | null;
  readonly autosignGrainsDir: string | null;
  /** Minutes that a file in `minions_autosign` is good for; 0: for ever. */
  readonly autosignTimeout: number;
  readonly permissivePkiAccess: boolean;
  /** Milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
}

/** What is to become of a key that nobody has judged yet. */
export type AutoDecision = 'accept' | 'reject' | 'pend';

/** Why a rule has no effect. */
export interface AutoAcceptProblem {
  readonly file: string;
  readonly reason: string;
}

const refreshMs = 1000;
const noRules: SignRules = { matches: () => false, unreadable: [] };

/**
 * Decides which keys need no operator [WIRE 7.6]. The files are read again every second, outside
 * of any request.
 */
export class AutoAccept {
  #options: AutoAcceptOptions;
  readonly #now: () => number;
  readonly #timer: NodeJS.Timeout;
  #rejects = noRules;
  #signs = noRules;
  #grains: ReadonlyMap<string, ReadonlySet<string>> = new Map();
  /** Id → when its stub was made. */
  #stubs = new Map<string, number>();
  #problems: readonly AutoAcceptProblem[] = [];
  #lastRound: Promise<void> = Promise.resolve();
  /** By file, so that rules are compiled when the text differs and not at every look. */
  readonly #compiled = new Map<string, { readonly text: string; readonly rules: SignRules }>();

  /** Use {@link openAutoAccept}. */
  constructor(options: AutoAcceptOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    // What cannot be read is told by problems(); the next round tries again.
    this.#timer = setInterval(() => void this.refresh().catch(() => {}), refreshMs).unref();
  }

  /**
   * Judges an id. Rejection wins; a stub is used up before it accepts.
   * @param grains - `autosign_grains` of the request, as the minion states them
   */
  async decide(
    id: string,
    grains: ReadonlyMap<string, WireValue | undefined> = new Map(),
  ): Promise<AutoDecision> {
    if (this.#rejects.matches(id)) return 'reject';
    const isSigned = this.#options.autoAccept || this.#signs.matches(id);
    if (isSigned || (await this.#useStub(id)) || this.#matchGrains(grains)) return 'accept';
    return 'pend';
  }

  /** What is in the files and has no effect, for the operator. */
  problems(): readonly AutoAcceptProblem[] {
    return this.#problems;
  }

  /** Goes by other options; resolves when their files are read. */
  async configure(options: Omit<AutoAcceptOptions, 'now'>): Promise<void> {
    this.#options = options;
    await this.refresh();
  }

  /** Reads the files now, after any reading that is under way. */
  refresh(): Promise<void> {
    const round = this.#lastRound.then(() => this.#readAll());
    this.#lastRound = round.catch(() => {});
    return round;
  }

  async #readAll(): Promise<void> {
    const problems: AutoAcceptProblem[] = [];
    this.#rejects = await this.#readRules(this.#options.autorejectFile, problems);
    this.#signs = await this.#readRules(this.#options.autosignFile, problems);
    this.#grains = await this.#readGrains(problems);
    this.#stubs = await this.#readStubs();
    this.#problems = problems;
  }

  /** Stops reading. May be called twice. */
  close(): void {
    clearInterval(this.#timer);
  }

  async #readRules(file: string | null, problems: AutoAcceptProblem[]): Promise<SignRules> {
    if (file === null) return noRules;
    const text = await this.#read(file, problems);
    if (text === undefined) return noRules;
    const rules = this.#compile(file, text);
    for (const line of rules.unreadable) {
      problems.push({ file, reason: `line ${line} is a regular expression that is not supported` });
    }
    return rules;
  }

  #compile(file: string, text: string): SignRules {
    const known = this.#compiled.get(file);
    if (known?.text === text) return known.rules;
    const rules = compileSignRules(text);
    this.#compiled.set(file, { text, rules });
    return rules;
  }

  async #readGrains(problems: AutoAcceptProblem[]): Promise<Map<string, Set<string>>> {
    const grains = new Map<string, Set<string>>();
    const directory = this.#options.autosignGrainsDir;
    if (directory === null) return grains;
    for (const name of await namesIn(directory)) {
      const text = await this.#read(path.join(directory, name), problems);
      const lines = (text ?? '').split('\n').map((line) => line.trim());
      grains.set(name, new Set(lines.filter((line) => line !== '' && !line.startsWith('#'))));
    }
    return grains;
  }

  async #readStubs(): Promise<Map<string, number>> {
    const stubs = new Map<string, number>();
    for (const id of await namesIn(this.#stubDirectory())) {
      const file = path.join(this.#stubDirectory(), id);
      const madeAt = await stat(file).then(
        ({ mtimeMs }) => mtimeMs,
        () => undefined,
      );
      if (madeAt === undefined) continue;
      if (this.#isExpired(madeAt)) await rm(file, { force: true });
      else stubs.set(id, madeAt);
    }
    return stubs;
  }

  async #read(file: string, problems: AutoAcceptProblem[]): Promise<string | undefined> {
    const content = await readTrustedFile(file, this.#options.permissivePkiAccess);
    if (content.ok) return content.text;
    const reasons = {
      missing: 'it does not exist',
      unreadable: 'it cannot be read',
      writable: 'others may write to it',
    };
    problems.push({ file, reason: reasons[content.reason] });
    return undefined;
  }

  async #useStub(id: string): Promise<boolean> {
    const madeAt = this.#stubs.get(id);
    if (madeAt === undefined || this.#isExpired(madeAt)) return false;
    this.#stubs.delete(id);
    // Removed before it counts: a stub that cannot be removed would accept for ever.
    return await rm(path.join(this.#stubDirectory(), id)).then(
      () => true,
      () => false,
    );
  }

  #matchGrains(grains: ReadonlyMap<string, WireValue | undefined>): boolean {
    for (const [name, lines] of this.#grains) {
      const text = pythonText(grains.get(name));
      if (text !== undefined && lines.has(text)) return true;
    }
    return false;
  }

  #isExpired(madeAt: number): boolean {
    const { autosignTimeout } = this.#options;
    return autosignTimeout > 0 && madeAt < this.#now() - autosignTimeout * 60_000;
  }

  #stubDirectory(): string {
    return path.join(this.#options.pkiDir, 'minions_autosign');
  }
}

/** Reads the files and keeps reading them. */
export async function openAutoAccept(options: AutoAcceptOptions): Promise<AutoAccept> {
  const autoAccept = new AutoAccept(options);
  await autoAccept.refresh();
  return autoAccept;
}

/** Goes by the options of a master, and by those that it takes over. */
export async function openConfiguredAutoAccept(
  config: LiveConfig,
  now: () => number,
): Promise<AutoAccept> {
  const { pkiDir } = config.fixed;
  const autoAccept = await openAutoAccept({ ...config.current, pkiDir, now });
  config.onChange((current) => autoAccept.configure({ ...current, pkiDir }));
  return autoAccept;
}

async function namesIn(directory: string): Promise<string[]> {
  return await readdir(directory).catch(() => []);
}
