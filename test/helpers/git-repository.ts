/** Creates git repositories for tests with the real program `git`. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import path from 'node:path';
import { deflateSync } from 'node:zlib';
import { type FileTree, layOut } from './file-tree.ts';

const environment = {
  PATH: process.env.PATH ?? '/usr/bin:/bin',
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_AUTHOR_NAME: 'test',
  GIT_AUTHOR_EMAIL: 'test@example.org',
  GIT_COMMITTER_NAME: 'test',
  GIT_COMMITTER_EMAIL: 'test@example.org',
};

/** A repository with a work tree. It can also be used as a remote. */
export class GitRepository {
  readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
    // These are the files that `git init` creates. Writing them directly saves a process.
    layOut(directory, {
      '.git/HEAD': 'ref: refs/heads/master\n',
      '.git/config':
        '[core]\n\trepositoryformatversion = 0\n\tbare = false\n[maintenance]\n\tauto = false\n',
      '.git/objects': null,
      '.git/refs': null,
    });
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

  /** Writes files and commits all changes. */
  commit(files: FileTree): void {
    layOut(this.directory, files);
    this.git('add', '--all', '--force');
    this.git('commit', '--quiet', '--allow-empty', '--message=change');
  }

  /** Creates branches at the current commit. */
  branches(...names: readonly string[]): void {
    const steps = names.map((name) => `create refs/heads/${name} HEAD\n`);
    this.gitWith(steps.join(''), 'update-ref', '--stdin');
  }

  path(...names: readonly string[]): string {
    return path.join(this.directory, ...names);
  }

  /**
   * Writes a tree object unchanged, even if git would reject it.
   * @returns the id of the object
   */
  tree(entries: readonly (readonly [mode: string, name: string, id: string])[]): string {
    const bytes = entries.map(([mode, name, id]) =>
      Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(id, 'hex')]),
    );
    const content = Buffer.concat(bytes);
    const object = Buffer.concat([Buffer.from(`tree ${content.length}\0`), content]);
    const id = createHash('sha1').update(object).digest('hex');
    const place = `.git/objects/${id.slice(0, 2)}/${id.slice(2)}`;
    layOut(this.directory, { [place]: deflateSync(object) });
    return id;
  }

  /**
   * Stores a file whose content is another file, repeated. In the pack, a delta of a few bytes
   * describes it.
   * @returns the ids of both files
   */
  repeatedFile(content: Buffer, times: number): readonly [base: string, repeated: string] {
    const idOf = (bytes: Buffer): Buffer =>
      createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest();
    const repeated = Buffer.concat(Array(times).fill(content));
    // The instruction copies the first 0x10000 bytes of the base.
    if (content.length !== 0x10000) throw new RangeError('the content must have 65,536 bytes');
    const copies = Array<Buffer>(times).fill(Buffer.from([0x80]));
    const delta = Buffer.concat([varint(content.length), varint(repeated.length), ...copies]);
    const [blob, refDelta] = [3, 7];
    const pack = Buffer.concat([
      Buffer.from('PACK\0\0\0\x02\0\0\0\x02', 'latin1'),
      packedHead(blob, content.length),
      deflateSync(content),
      packedHead(refDelta, delta.length),
      idOf(content),
      deflateSync(delta),
    ]);
    const sum = createHash('sha1').update(pack).digest();
    this.gitWith(Buffer.concat([pack, sum]), 'index-pack', '--stdin');
    return [idOf(content).toString('hex'), idOf(repeated).toString('hex')];
  }
}

/** Encodes a number in groups of seven bits, the lowest first. */
function varint(value: number): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left >= 0x80; left >>>= 7) bytes.push((left & 0x7f) | 0x80);
  return Buffer.from([...bytes, left]);
}

/** Encodes the type and size that precede an object in a pack. */
function packedHead(type: number, size: number): Buffer {
  const low = (type << 4) | (size & 15);
  const high = size >>> 4;
  return high === 0 ? Buffer.from([low]) : Buffer.concat([Buffer.from([low | 0x80]), varint(high)]);
}
