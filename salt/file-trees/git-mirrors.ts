/** The git mirrors of a master. Parts of the master that read the same remote share one mirror. */

import { hash } from 'node:crypto';
import path from 'node:path';
import type { GitAccess } from '#config';
import { GitMirror, type GitMirrorDeps } from './git-mirror.ts';

/** Opens one mirror for each repository and shares it between callers. */
export class GitMirrors {
  readonly #deps: Omit<GitMirrorDeps, 'access' | 'directory'>;
  readonly #directory: string;
  readonly #open = new Map<string, Promise<GitMirror>>();
  readonly #started = new Set<GitMirror>();

  /** @param directory - parent of the mirrors' directories */
  constructor(directory: string, deps: Omit<GitMirrorDeps, 'access' | 'directory'>) {
    this.#directory = directory;
    this.#deps = deps;
  }

  /**
   * Opens the mirror of a remote.
   * @param access - remote and credentials; calls with equal values get the same mirror
   */
  async open(access: GitAccess): Promise<GitMirror> {
    const { updateInterval: _, ...rest } = access;
    const mark = hash('sha256', JSON.stringify(rest)).slice(0, 32);
    const directory = path.join(this.#directory, mark);
    const opening = this.#open.get(mark) ?? GitMirror.open({ ...this.#deps, access, directory });
    this.#open.set(mark, opening);
    return opening;
  }

  /** Starts the mirrors that were opened since the last call. */
  async start(): Promise<void> {
    const waiting = (await this.#all()).filter((mirror) => !this.#started.has(mirror));
    for (const mirror of waiting) this.#started.add(mirror);
    await Promise.all(waiting.map((mirror) => mirror.start()));
  }

  async close(): Promise<void> {
    await Promise.all((await this.#all()).map((mirror) => mirror.close()));
  }

  #all(): Promise<GitMirror[]> {
    return Promise.all(this.#open.values());
  }
}
