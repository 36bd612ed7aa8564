import { open, readdir, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { RE2JS } from 're2js';
import type { LiveConfig } from '#config';
import { pythonStr, type WireValue } from '#minion-protocol';
import { ifPresent, isMissing } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';

/**
 * Formats a grain as Python's `str()` does. Salt compares this text with the lines of files in
 * `autosign_grains_dir`. Returns `undefined` for types that must never match: nil, maps, bytes and
 * similar types.
 */
function pythonText(value: WireValue | undefined): string | undefined {
  const isMeant = Array.isArray(value) || (value !== null && typeof value !== 'object');
  return isMeant && value !== undefined ? pythonStr(value) : undefined;
}

/** Compiled content of an `autosign_file` or `autoreject_file`. */
export interface SignRules {
  matches(id: string): boolean;
  /** Line numbers of unsupported regular expressions. The first line has the number 1. */
  readonly unreadable: readonly number[];
}

/**
 * Compiles the text of an `autosign_file` or `autoreject_file` [WIRE 7.6]. A line matches an id if
 * the line matches the whole id as a glob or as a regular expression. Unlike in Salt, each
 * alternative of a regular expression (`a|b`) must match the whole id.
 */
function compileSignRules(text: string): SignRules {
  const tests: ((id: string) => boolean)[] = [];
  const unreadable: number[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    const expression = line.trim();
    if (expression === '' || expression.startsWith('#')) continue;
    tests.push(compileGlob(expression));
    if (/^[\w-]+$/.test(expression)) continue; // it means the same as a regular expression
    const regex = tryRegex(expression);
    if (regex !== undefined) tests.push((id) => regex.matches(id));
    // Most globs are not valid regular expressions, so an invalid one is not a mistake. But `(?`
    // shows that a regular expression was intended.
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

/** Content of a file that decides about keys, or the reason why it is not trusted. */
type TrustedFile =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly reason: 'missing' | 'unreadable' | 'writable' };

/**
 * Reads a file with rules. The file is not trusted if all users can write to it. It is also not
 * trusted if its group can write to it and `groupMayWrite` is false.
 */
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

/**
 * Options of {@link openAutoAccept}. They correspond to the options in the master's configuration.
 */
export interface AutoAcceptOptions {
  readonly pkiDir: string;
  readonly autoAccept: boolean;
  readonly autosignFile: string | null;
  readonly autorejectFile: string | null;
  readonly autosignGrainsDir: string | null;
  /** Validity period of a file in `minions_autosign`, in minutes. 0 means unlimited. */
  readonly autosignTimeout: number;
  readonly permissivePkiAccess: boolean;
  /** Clock, in milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
}

/** Automatic decision about a key. With `pend`, the key waits for an operator's decision. */
export type AutoDecision = 'accept' | 'reject' | 'pend';

/** Auto-accept file that has no effect, or that contains a line without effect, and the reason. */
export interface AutoAcceptProblem {
  readonly file: string;
  readonly reason: string;
}

const refreshMs = 1000;
const noRules: SignRules = { matches: () => false, unreadable: [] };

/**
 * Decides which keys are accepted or rejected without an operator [WIRE 7.6]. The rule files are
 * read every second, not for each request.
 */
export class AutoAccept {
  #options: AutoAcceptOptions;
  readonly #now: () => number;
  readonly #timer: NodeJS.Timeout;
  #rejects = noRules;
  #signs = noRules;
  #grains: ReadonlyMap<string, ReadonlySet<string>> = new Map();
  /**
   * Modification times of the files in `minions_autosign`, by minion id, in milliseconds since
   * 1970.
   */
  #stubs = new Map<string, number>();
  #problems: readonly AutoAcceptProblem[] = [];
  #lastRound: Promise<void> = Promise.resolve();
  /** Compiled rules by file. They are compiled again only when the text of the file changes. */
  readonly #compiled = new Map<string, { readonly text: string; readonly rules: SignRules }>();

  /** Creates an instance that has not read its files. Use {@link openAutoAccept} instead. */
  constructor(options: AutoAcceptOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    // `problems()` reports unreadable files, and the next round reads the files again.
    this.#timer = setInterval(() => void this.refresh().catch(() => {}), refreshMs).unref();
  }

  /**
   * Decides about the key of an id. Rejection has precedence over acceptance. If a file in
   * `minions_autosign` accepts the id, the file is deleted before the key is accepted.
   * @param grains - `autosign_grains` of the request. The minion chooses their values
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

  /** Returns the files and lines that have no effect, to be shown to the operator. */
  problems(): readonly AutoAcceptProblem[] {
    return this.#problems;
  }

  /** Applies new options. Resolves when the files that they name have been read. */
  async configure(options: Omit<AutoAcceptOptions, 'now'>): Promise<void> {
    this.#options = options;
    await this.refresh();
  }

  /** Reads the files now. If a read is in progress, first waits until it has ended. */
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

  /** Stops the periodic reading. May be called more than once. */
  close(): void {
    clearInterval(this.#timer);
  }

  async #readRules(file: string | null, problems: AutoAcceptProblem[]): Promise<SignRules> {
    if (file === null) return noRules;
    const text = await this.#read(file, problems);
    if (text === undefined) return noRules;
    const rules = this.#compile(file, text);
    for (const line of rules.unreadable) {
      problems.push({ file, reason: `line ${line} contains an unsupported regular expression` });
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
      writable: 'it is writable for other users',
    };
    problems.push({ file, reason: reasons[content.reason] });
    return undefined;
  }

  async #useStub(id: string): Promise<boolean> {
    const madeAt = this.#stubs.get(id);
    if (madeAt === undefined || this.#isExpired(madeAt)) return false;
    this.#stubs.delete(id);
    // The file is removed before the key is accepted. If it could not be removed, it would accept
    // keys forever.
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

/** Reads the rule files, and reads them again periodically. */
export async function openAutoAccept(options: AutoAcceptOptions): Promise<AutoAccept> {
  const autoAccept = new AutoAccept(options);
  await autoAccept.refresh();
  return autoAccept;
}

/**
 * Creates an {@link AutoAccept} from a master's configuration, and applies changed options after
 * each reload.
 */
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
  return (await ifPresent(readdir(directory))) ?? [];
}
