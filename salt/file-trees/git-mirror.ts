/**
 * Mirror of a remote git repository: the state after the last successful fetch. Trees of branches
 * and tags are in memory, and file contents are on the disk. For requests of minions, the master
 * reads only this mirror. Git runs only on a timer and on request of an operator.
 */

import { mkdir, readdir, rename, rm, stat, unlink } from 'node:fs/promises';
import path from 'node:path';
import type { Logger } from 'pino';
import type { GitAccess, GitLimits } from '#config';
import { type FoundFile, MasterError } from '#master';
import {
  linkSignals,
  readTextIfPresent,
  unlimitedSteps,
  WorkBudget,
  writeFileAtomically,
} from '#runtime';
import { DiskFiles, HiddenDirectories, ifPresent } from './disk-files.ts';
import { ObjectReader, parseTree } from './git-objects.ts';
import { type GitSetting, placeOfRemote, runGit } from './git-program.ts';
import {
  knownEntrySteps,
  servedName,
  type Tree,
  type TreeEntry,
  TreeSizes,
  type Trees,
} from './git-tree.ts';

/** A branch, a tag, or a commit that the configuration names. */
export interface GitRef {
  readonly kind: 'branch' | 'tag' | 'sha';
  readonly name: string;
}

/** Immutable contents of a repository at one time. */
export interface GitSnapshot {
  /** Tree id of each ref, by {@link refKey}. */
  readonly refs: ReadonlyMap<string, string>;
  readonly trees: Trees;
}

function refKey({ kind, name }: GitRef): string {
  return `${kind} ${name}`;
}

/** Whether a name is the id of a commit. */
export function isCommitId(name: string): boolean {
  return /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/i.test(name);
}

/**
 * Returns the tree id of the first existing ref, or `undefined`.
 * @param kinds - kinds of refs (branches, tags, commit ids) in which each name is looked up, in
 * this order
 */
export function treeOfRef(
  { refs }: GitSnapshot,
  names: readonly string[],
  kinds: readonly GitRef['kind'][] = ['branch', 'tag', 'sha'],
): string | undefined {
  for (const name of names) {
    for (const kind of kinds) {
      const tree = refs.get(refKey({ kind, name }));
      if (tree !== undefined) return tree;
    }
  }
  return undefined;
}

/**
 * Predicate that selects refs. A mirror reads every ref that at least one of its filters accepts.
 */
export type RefFilter = (ref: GitRef) => boolean;

const nothing: GitSnapshot = { refs: new Map(), trees: new Map() };
const maxRefs = 10_000;
const maxDepth = 128;
const maxLinkBytes = 4096;
/**
 * Maximum length of the paths of a tree, in characters, for each file of `max_files`. Git stores
 * equal directories once, so a small repository can have long paths to many files.
 */
const pathLengthPerFile = 256;
/**
 * Maximum size of a tree object, in bytes, for each file of `max_files`: a mode, the longest name
 * and an object id.
 */
const maxEntryBytes = 296;
/** Estimated work for reading one entry of a tree from git, in steps. */
const entrySteps = 500;
/** Estimated work for reading one branch or tag, and deciding whether it is needed, in steps. */
const refSteps = 500;
/** Estimated work for encoding one entry of a tree as JSON, in steps. */
const storedEntrySteps = 200;
/**
 * Time for which file contents stay on the disk after no tree refers to them any more, in
 * milliseconds. Minions with older file lists may still request these contents.
 */
const retiredForMs = 600_000;
/**
 * Maximum size of all stored file contents, as a multiple of `max_bytes`. It includes contents that
 * no tree refers to any more.
 */
const contentShare = 2;
const watchMs = 250;

export interface GitMirrorDeps {
  readonly access: GitAccess;
  readonly limits: GitLimits;
  /** Directory that only this mirror uses. Created if it does not exist. */
  readonly directory: string;
  readonly log: Logger;
  /** Aborted when the master closes. */
  readonly closing: AbortSignal;
}

export class GitMirror {
  readonly #setting: GitSetting;
  readonly #directory: string;
  readonly #log: Logger;
  readonly #closing: AbortSignal;
  readonly #filters: RefFilter[] = [];
  readonly #commits = new Set<string>();
  readonly #files: DiskFiles;
  readonly #retired = new Map<string, number>();
  #snapshot: GitSnapshot = nothing;
  /** Commit of each ref when the last update read the repository. `undefined` after a restart. */
  #commitsRead: ReadonlyMap<string, string> | undefined;
  /**
   * Sizes in bytes of the file contents on the disk, by id. A size is `undefined` after a restart
   * until it is measured.
   */
  #blobs = new Map<string, number | undefined>();
  #updating: Promise<boolean> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #loggedFailure = '';

  private constructor(
    { access, limits, directory, log, closing }: GitMirrorDeps,
    files: DiskFiles,
  ) {
    this.#setting = { access, limits, directory: path.join(directory, 'repository') };
    this.#directory = directory;
    this.#log = log;
    this.#closing = closing;
    this.#files = files;
  }

  /** Opens a mirror with the state that earlier fetches have stored. Does not fetch. */
  static async open(deps: GitMirrorDeps): Promise<GitMirror> {
    const mirror = new GitMirror(deps, new DiskFiles(await HiddenDirectories.open([])));
    await mkdir(mirror.#blobDirectory, { recursive: true, mode: 0o700 });
    await mirror.#restore();
    return mirror;
  }

  /** Address of the remote, without user and password. */
  get place(): string {
    return placeOfRemote(this.#setting.access);
  }

  /** Current snapshot. The same object until a fetch brings changes. */
  get snapshot(): GitSnapshot {
    return this.#snapshot;
  }

  /**
   * Adds refs and commits to those that the mirror reads: the refs that `filter` accepts, and the
   * given commits. The next update reads them.
   */
  want(filter: RefFilter, commits: Iterable<string> = []): void {
    this.#filters.push(filter);
    for (const commit of commits) this.#commits.add(commit);
  }

  /**
   * Starts fetching on a timer. If nothing has been fetched yet, fetches at once and waits for the
   * result.
   */
  async start(): Promise<void> {
    const first = this.#updateByClock();
    if (this.#snapshot === nothing) await first;
  }

  /**
   * Fetches and applies changes. Only one update runs at a time. If this method is called during an
   * update, the call waits for another update after it, because the running update may have missed
   * a change.
   * @returns whether the snapshot has changed
   * @throws MasterError ERR_GIT; the previous snapshot stays in use
   */
  async update(): Promise<boolean> {
    await this.#updating?.catch(() => {
      // The caller that started the update gets the error.
    });
    this.#updating ??= this.#update().finally(() => {
      this.#updating = undefined;
    });
    return this.#updating;
  }

  /**
   * Returns the stored file content with this git object id, or `undefined` if it is not stored.
   */
  async find(id: string): Promise<FoundFile | undefined> {
    return this.#files.find(this.#blobDirectory, blobPath(id));
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#updating?.catch(() => {
      // The caller that started the update gets the error.
    });
  }

  get #blobDirectory(): string {
    return path.join(this.#directory, 'files');
  }

  get #stateFile(): string {
    return path.join(this.#directory, 'state.json');
  }

  async #updateByClock(): Promise<void> {
    const startedAt = performance.now();
    try {
      await this.update();
      if (this.#loggedFailure !== '')
        this.#log.info({ remote: this.place }, 'fetching a git remote works again');
      this.#loggedFailure = '';
    } catch (err) {
      // A repeated failure is logged once.
      if (!this.#closing.aborted && String(err) !== this.#loggedFailure) {
        this.#log.error(
          { remote: this.place, err },
          'cannot fetch a git remote; the master serves the files of the last successful fetch',
        );
        this.#loggedFailure = String(err);
      }
    }
    if (this.#closing.aborted) return;
    const wait = this.#setting.access.updateInterval * 1000 - (performance.now() - startedAt);
    this.#timer = setTimeout(() => void this.#updateByClock(), Math.max(wait, 1000)).unref();
  }

  async #update(): Promise<boolean> {
    await this.#fetch();
    const commits = await this.#within((signal) => this.#refs(signal));
    if (this.#commitsRead !== undefined && isEqual(commits, this.#commitsRead)) {
      await this.#expire();
      return false;
    }
    const [next, blobs] = await this.#within((signal) => this.#readAll(commits, signal));
    const isSame = isEqual(next.refs, this.#snapshot.refs);
    await this.#sweep(blobs);
    this.#commitsRead = commits;
    if (isSame) return false;
    await writeFileAtomically(this.#stateFile, stateParts(next), 0o600);
    this.#snapshot = next;
    this.#log.info({ remote: this.place, refs: next.refs.size }, 'fetched changes of a git remote');
    await this.#collectGarbage();
    return true;
  }

  async #fetch(): Promise<void> {
    const { directory, limits } = this.#setting;
    const wanted = [...this.#commits];
    await this.#within(async (signal) => {
      await this.#checkCredentials();
      await this.#prepare(signal);
      const tooLarge = new AbortController();
      const both = linkSignals(signal, tooLarge.signal);
      const watch = watchSize(path.join(directory, 'objects'), limits.maxBytes, () =>
        tooLarge.abort(this.#overLimit()),
      );
      const words = [
        'fetch',
        '--prune',
        '--no-tags',
        '--no-recurse-submodules',
        '--quiet',
        '--force',
      ];
      try {
        await runGit(this.#setting, [...words, 'origin'], both.signal);
        for (const commit of wanted) {
          if (await this.#has(commit, both.signal)) continue;
          await runGit(
            this.#setting,
            ['fetch', '--no-tags', '--quiet', 'origin', commit],
            both.signal,
          );
        }
      } finally {
        clearInterval(watch);
        both.unlink();
      }
      if ((await sizeOf(directory)) > limits.maxBytes) throw this.#overLimit();
    });
  }

  /**
   * Checks that only the owner can read the credentials file.
   * @throws MasterError ERR_GIT
   */
  async #checkCredentials(): Promise<void> {
    const { credentialsFile: file } = this.#setting.limits;
    if (file === null) return;
    const found = await stat(file).catch(() => undefined);
    const isPrivate = found?.isFile() === true && (found.mode & 0o077) === 0;
    if (isPrivate) return;
    const reason =
      found === undefined ? 'does not exist' : 'is accessible to other users; set its mode to 0600';
    throw new MasterError('ERR_GIT', `${this.place}: credentials_file ${file} ${reason}`);
  }

  /**
   * Creates the bare repository, or removes the locks and partial packs that an interrupted git
   * left in it.
   */
  async #prepare(signal: AbortSignal): Promise<void> {
    const { directory } = this.#setting;
    const isThere = await stat(path.join(directory, 'HEAD')).catch(() => undefined);
    if (isThere === undefined) {
      await rm(directory, { recursive: true, force: true });
      await mkdir(directory, { recursive: true, mode: 0o700 });
      await runGit(this.#setting, ['init', '--bare', '--quiet', '--template='], signal);
      return;
    }
    for (const name of await readdir(directory, { recursive: true })) {
      const isLeft = name.endsWith('.lock') || /(?:^|\/)tmp_[^/]*$/.test(name);
      if (isLeft) await unlink(path.join(directory, name));
    }
    if ((await sizeOf(directory)) > this.#setting.limits.maxBytes) await this.#collectGarbage(true);
  }

  /**
   * Removes git objects that no branch needs, for example after a history was rewritten.
   * @param isNeeded - true: removes these objects now. false: git decides whether to remove them
   * now. Default: false
   */
  async #collectGarbage(isNeeded = false): Promise<void> {
    const words = ['gc', '--quiet', ...(isNeeded ? ['--prune=now'] : ['--auto'])];
    try {
      await this.#within((signal) => runGit(this.#setting, words, signal));
    } catch (err) {
      this.#log.warn({ remote: this.place, err }, 'git garbage collection failed');
    }
  }

  async #has(commit: string, signal: AbortSignal): Promise<boolean> {
    const found = runGit(this.#setting, ['cat-file', '-e', `${commit}^{commit}`], signal);
    return found.then(
      () => true,
      () => false,
    );
  }

  /**
   * Reads the trees of commits, and stores on the disk the contents of the files in these trees.
   */
  async #readAll(
    commits: ReadonlyMap<string, string>,
    signal: AbortSignal,
  ): Promise<[GitSnapshot, Set<string>]> {
    const reader = new ObjectReader(this.#setting, signal);
    try {
      const reading = new SnapshotReading(reader, this.#snapshot.trees, this.#setting);
      const refs = new Map<string, string>();
      for (const [key, commit] of commits) refs.set(key, await reading.treeOf(commit));
      const blobs = await reading.check([...refs.values()]);
      await this.#keepAll(reader, blobs);
      return [{ refs, trees: reading.trees }, blobs];
    } finally {
      await reader.close();
    }
  }

  /** Returns the commits of all branches and tags that a filter accepts. */
  async #refs(signal: AbortSignal): Promise<Map<string, string>> {
    const format = '%(objectname)%00%(objecttype)%00%(*objecttype)%00%(refname)';
    const output = await runGit(this.#setting, ['for-each-ref', `--format=${format}`], signal);
    const refs = new Map<string, string>();
    const budget = new WorkBudget(unlimitedSteps);
    for (const line of output.split('\n')) {
      await budget.giveWayAfter(refSteps);
      const [id = '', type, tagged, name = ''] = line.split('\0');
      const ref = readRef(name);
      const isCommit = type === 'commit' || (type === 'tag' && tagged === 'commit');
      if (ref !== undefined && isCommit && this.#isWanted(ref)) refs.set(refKey(ref), id);
    }
    for (const name of this.#commits) refs.set(refKey({ kind: 'sha', name }), name);
    if (refs.size <= maxRefs) return refs;
    throw new MasterError(
      'ERR_GIT',
      `${this.place}: the repository has more than ${maxRefs} branches and tags`,
    );
  }

  #isWanted(ref: GitRef): boolean {
    return this.#filters.some((isWanted) => isWanted(ref));
  }

  /**
   * Stores the needed file contents that are not on the disk yet. If this fails, for example
   * because all contents together exceed the limit, removes those that were stored by this call.
   */
  async #keepAll(reader: ObjectReader, needed: ReadonlySet<string>): Promise<void> {
    const added: string[] = [];
    let bytes = 0;
    try {
      for (const id of needed) {
        let size = this.#blobs.get(id) ?? (await this.#count(id));
        if (size === undefined) {
          added.push(id);
          size = await this.#keep(reader, id, bytes);
        }
        bytes += size;
        if (bytes > this.#setting.limits.maxBytes) throw this.#overLimit();
      }
    } catch (error) {
      for (const id of added) await this.#remove(id);
      throw error;
    }
  }

  /**
   * Measures a stored file content and records its size.
   * @returns the size in bytes, or `undefined` if the content is not stored
   */
  async #count(id: string): Promise<number | undefined> {
    if (!this.#blobs.has(id)) return undefined;
    const found = await ifPresent(stat(path.join(this.#blobDirectory, blobPath(id))));
    this.#blobs.set(id, found?.size);
    return found?.size;
  }

  /**
   * Stores one file content.
   * @param before - total size of the contents that already count towards the limit, in bytes
   * @returns size of the stored content in bytes
   * @throws MasterError ERR_GIT if all contents together would exceed the limit
   */
  async #keep(reader: ObjectReader, id: string, before: number): Promise<number> {
    const header = await reader.header(id);
    if (before + header.size > this.#setting.limits.maxBytes) throw this.#overLimit();
    const file = path.join(this.#blobDirectory, blobPath(id));
    await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
    const temporary = `${file}.tmp`;
    await rm(temporary, { force: true });
    await reader.toFile(header, temporary);
    await rename(temporary, file);
    this.#blobs.set(id, header.size);
    return header.size;
  }

  /** Marks file contents that no tree refers to, and removes them after their retention time. */
  async #sweep(needed: ReadonlySet<string>): Promise<void> {
    const now = performance.now();
    for (const id of this.#blobs.keys()) {
      if (needed.has(id)) this.#retired.delete(id);
      else if (!this.#retired.has(id)) this.#retired.set(id, now);
    }
    await this.#expire();
  }

  /**
   * Removes unreferenced file contents, oldest first. They are removed after their retention time,
   * or earlier if all contents exceed the limit.
   */
  async #expire(): Promise<void> {
    const now = performance.now();
    let bytes = [...this.#blobs.values()].reduce<number>((sum, size = 0) => sum + size, 0);
    for (const [id, since] of this.#retired) {
      const isRoom = bytes <= contentShare * this.#setting.limits.maxBytes;
      if (isRoom && now - since < retiredForMs) return;
      bytes -= this.#blobs.get(id) ?? 0;
      await this.#remove(id);
    }
  }

  async #remove(id: string): Promise<void> {
    this.#retired.delete(id);
    this.#blobs.delete(id);
    await rm(path.join(this.#blobDirectory, blobPath(id)), { force: true });
  }

  async #restore(): Promise<void> {
    const names = await readdir(this.#blobDirectory, { recursive: true });
    for (const name of names) {
      if (/^\w\w\/[0-9a-f]+$/.test(name)) this.#blobs.set(name.replace('/', ''), undefined);
    }
    const text = await readTextIfPresent(this.#stateFile);
    if (text === undefined) return;
    try {
      this.#snapshot = fromState(JSON.parse(text));
    } catch (err) {
      this.#log.error({ remote: this.place, err }, 'cannot read the stored state of a git remote');
    }
  }

  async #within<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const time = AbortSignal.timeout(this.#setting.limits.timeout * 1000);
    const both = linkSignals(this.#closing, time);
    try {
      return await work(both.signal);
    } finally {
      both.unlink();
    }
  }

  #overLimit(): MasterError {
    const { maxBytes } = this.#setting.limits;
    return new MasterError(
      'ERR_GIT',
      `${this.place}: the files exceed ${maxBytes} bytes; raise saltbridge: git: max_bytes`,
    );
  }
}

/** Reads the trees of commits and reuses trees that are already known. */
class SnapshotReading {
  readonly trees = new Map<string, Tree>();
  readonly #reader: ObjectReader;
  readonly #known: Trees;
  readonly #setting: GitSetting;
  readonly #budget = new WorkBudget(unlimitedSteps);
  #entries = 0;

  constructor(reader: ObjectReader, known: Trees, setting: GitSetting) {
    this.#reader = reader;
    this.#known = known;
    this.#setting = setting;
  }

  /** Returns the id of a commit's tree, after reading it and all trees below it. */
  async treeOf(commit: string): Promise<string> {
    const header = await this.#reader.header(`${commit}^{tree}`);
    const bytes = await this.#treeBytes(header);
    await this.#add(header.id, bytes, 0);
    return header.id;
  }

  /**
   * Returns the ids of the file contents to which the given trees refer.
   * @throws MasterError ERR_GIT if a tree has too many files or too long paths
   */
  async check(roots: readonly string[]): Promise<Set<string>> {
    const { maxFiles } = this.#setting.limits;
    const sizes = new TreeSizes();
    for (const root of new Set(roots)) {
      const { files, pathLength } = await sizes.sizeOf(this.trees, root, this.#budget);
      if (files > maxFiles) throw this.#overLimit();
      if (pathLength > maxFiles * pathLengthPerFile) {
        throw this.#refusal(
          `the paths of a tree have more than ${maxFiles * pathLengthPerFile} characters together; raise saltbridge: git: max_files`,
        );
      }
    }
    const files = new Set<string>();
    for (const tree of this.trees.values()) {
      for (const entry of tree.values()) if (entry.kind === 'file') files.add(entry.id);
      await this.#budget.giveWayAfter(tree.size * knownEntrySteps);
    }
    if (files.size > this.#setting.limits.maxFiles) throw this.#overLimit();
    return files;
  }

  async #add(id: string, given: Buffer | undefined, depth: number): Promise<void> {
    if (this.trees.has(id)) return;
    if (depth > maxDepth) throw this.#refusal(`directories are nested more than ${maxDepth} deep`);
    const tree = this.#known.get(id) ?? (await this.#parse(id, given));
    this.trees.set(id, tree);
    this.#entries += tree.size;
    // Git stores equal directories once, so each distinct directory is counted once.
    if (this.#entries > 10 * this.#setting.limits.maxFiles) throw this.#overLimit();
    for (const entry of tree.values()) {
      if (entry.kind === 'directory') await this.#add(entry.id, undefined, depth + 1);
    }
  }

  async #parse(id: string, given: Buffer | undefined): Promise<Tree> {
    const bytes = given ?? (await this.#treeBytes(await this.#reader.header(id)));
    const tree = new Map<string, TreeEntry>();
    let read = 0;
    for (const { mode, name: raw, id: child } of parseTree(bytes, id.length / 2)) {
      read += 1;
      if (read > this.#setting.limits.maxFiles) throw this.#overLimit();
      await this.#budget.giveWayAfter(entrySteps);
      const name = servedName(raw);
      const entry = name === undefined ? undefined : await this.#entry(mode, child);
      if (name !== undefined && entry !== undefined) tree.set(name, entry);
    }
    return tree;
  }

  /** Converts an entry of a tree. Returns `undefined` for submodules and unknown modes. */
  async #entry(mode: string, id: string): Promise<TreeEntry | undefined> {
    if (/^0?40000$/.test(mode)) return { kind: 'directory', id };
    if (/^100\d{3}$/.test(mode)) return { kind: 'file', id, isExecutable: mode === '100755' };
    if (mode !== '120000') return undefined;
    const header = await this.#reader.header(id);
    if (header.size > maxLinkBytes)
      throw this.#refusal('the target of a symbolic link is longer than 4096 bytes');
    const target = (await this.#reader.bytes(header)).toString('utf8');
    return /[\0\ufffd]/.test(target) ? undefined : { kind: 'link', target };
  }

  async #treeBytes(header: Awaited<ReturnType<ObjectReader['header']>>): Promise<Buffer> {
    if (header.type !== 'tree') throw this.#refusal(`${header.id} is a ${header.type}, not a tree`);
    if (header.size > maxEntryBytes * this.#setting.limits.maxFiles) throw this.#overLimit();
    return this.#reader.bytes(header);
  }

  #overLimit(): MasterError {
    const { maxFiles } = this.#setting.limits;
    return this.#refusal(
      `a tree has more than ${maxFiles} files; raise saltbridge: git: max_files`,
    );
  }

  #refusal(reason: string): MasterError {
    return new MasterError('ERR_GIT', `${placeOfRemote(this.#setting.access)}: ${reason}`);
  }
}

/** Parses a full ref name as printed by `for-each-ref`. */
function readRef(name: string): GitRef | undefined {
  const [, space, rest = ''] = /^refs\/(remotes\/[^/]+|heads|tags)\/(.+)$/.exec(name) ?? [];
  if (space === undefined) return undefined;
  return { kind: space === 'tags' ? 'tag' : 'branch', name: rest };
}

function blobPath(id: string): string {
  return `${id.slice(0, 2)}/${id.slice(2)}`;
}

/**
 * Measures a directory every {@link watchMs} milliseconds, and calls `onOver` each time it is
 * larger than `maxBytes`. Skips a measurement if the previous one is still running.
 */
function watchSize(directory: string, maxBytes: number, onOver: () => void): NodeJS.Timeout {
  let isLooking = false;
  return setInterval(async () => {
    if (isLooking) return;
    isLooking = true;
    if ((await sizeOf(directory)) > maxBytes) onOver();
    isLooking = false;
  }, watchMs);
}

/**
 * Returns the total size of the files in a directory, in bytes. The directory may change meanwhile.
 */
async function sizeOf(directory: string): Promise<number> {
  let bytes = 0;
  const entries = await readdir(directory, { recursive: true }).catch(() => []);
  for (const name of entries) {
    const found = await stat(path.join(directory, name)).catch(() => undefined);
    if (found?.isFile() === true) bytes += found.size;
  }
  return bytes;
}

function isEqual(left: ReadonlyMap<string, string>, right: ReadonlyMap<string, string>): boolean {
  return left.size === right.size && [...left].every(([name, id]) => right.get(name) === id);
}

interface State {
  readonly refs: readonly (readonly [string, string])[];
  readonly trees: readonly (readonly [string, readonly (readonly [string, TreeEntry])[]])[];
}

/**
 * Yields the JSON of a {@link State} in parts. Encodes one part at a time, and lets other work run.
 */
async function* stateParts({ refs, trees }: GitSnapshot): AsyncGenerator<string> {
  const budget = new WorkBudget(unlimitedSteps);
  yield `{"refs":${JSON.stringify([...refs])},"trees":[`;
  let separator = '';
  for (const [id, tree] of trees) {
    yield `${separator}[${JSON.stringify(id)},[`;
    separator = ',';
    yield* entryParts(tree, budget);
    yield ']]';
  }
  yield ']}';
}

/** Yields the JSON of the entries of a tree, one part for each slice of work. */
async function* entryParts(tree: Tree, budget: WorkBudget): AsyncGenerator<string> {
  let part: string[] = [];
  let separator = '';
  for (const entry of tree) {
    part.push(JSON.stringify(entry));
    budget.addToSlice(storedEntrySteps);
    if (!budget.isSliceOver) continue;
    yield separator + part.join(',');
    separator = ',';
    part = [];
    await budget.giveWay();
  }
  if (part.length > 0) yield separator + part.join(',');
}

/**
 * Restores a snapshot from the state file. The file is trusted because only the master writes it.
 */
function fromState({ refs, trees }: State): GitSnapshot {
  return {
    refs: new Map(refs),
    trees: new Map(trees.map(([id, tree]) => [id, new Map(tree)])),
  };
}
