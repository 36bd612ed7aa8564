/** Repositories of git for tests, made by the real program. */
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { layOut } from './file-tree.ts';

const environment = {
  PATH: process.env.PATH ?? '/usr/bin:/bin',
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_AUTHOR_NAME: 'test',
  GIT_AUTHOR_EMAIL: 'test@example.org',
  GIT_COMMITTER_NAME: 'test',
  GIT_COMMITTER_EMAIL: 'test@example.org',
};

/** A repository with a work tree, which is a remote as well. */
export class GitRepository {
  readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
    mkdirSync(directory, { recursive: true });
    this.git('init', '--quiet', '--initial-branch=master');
  }

  get url(): string {
    return `file://${this.directory}`;
  }

  git(...words: readonly string[]): string {
    return this.gitWith('', ...words);
  }

  gitWith(input: string | Buffer, ...words: readonly string[]): string {
    return execFileSync('git', words, {
      cwd: this.directory,
      env: environment,
      input,
      encoding: 'utf8',
      stdio: ['pipe', 'pipe', 'pipe'],
    }).trim();
  }

  /** Writes files and commits everything. @returns the commit */
  commit(files: Parameters<typeof layOut>[1]): string {
    layOut(this.directory, files);
    this.git('add', '--all', '--force');
    this.git('commit', '--quiet', '--allow-empty', '--message=change');
    return this.git('rev-parse', 'HEAD');
  }

  path(...names: readonly string[]): string {
    return path.join(this.directory, ...names);
  }

  /** Writes a tree object as it is, whatever git thinks of it. @returns its id */
  tree(entries: readonly (readonly [mode: string, name: string, id: string])[]): string {
    const bytes = entries.map(([mode, name, id]) =>
      Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(id, 'hex')]),
    );
    const words = ['hash-object', '-t', 'tree', '-w', '--literally', '--stdin'];
    return this.gitWith(Buffer.concat(bytes), ...words);
  }
}
