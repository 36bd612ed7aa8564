/** Files of real git repositories, which the real program git fetches. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { userInfo } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import test, { type ExecutionContext } from 'ava';
import {
  type GitLimits,
  gitfsRemotesOf,
  gitPillarRemotesOf,
  type MasterOptions,
  resolveMasterConfig,
} from '#config';
import { gitLimits } from '#config/git-options.ts';
import { defaultsOf } from '#config/schema.ts';
import { createLogger, type FileServerBackend } from '#master';
import { maxSliceSteps } from '#runtime';
import { GitMirrors } from '#salt/file-trees/git-mirrors.ts';
import { openGitfs } from '#salt/file-trees/gitfs.ts';
import { gitPillarUpdater } from '#salt/pillar/git-pillar.ts';
import { createMaster } from '#server';
import { freePort } from '../../../bench/free-port.ts';
import { within } from '../../helpers/deadline.ts';
import { effort } from '../../helpers/effort.ts';
import { layOut } from '../../helpers/file-tree.ts';
import { GitRepository } from '../../helpers/git-repository.ts';
import { testWhere } from '../../helpers/needs.ts';
import { slicesOf } from '../../helpers/slices.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

interface Served {
  readonly backend: FileServerBackend;
  readonly update: () => Promise<void>;
  text(path: string, saltenv?: string): Promise<string | undefined>;
  files(saltenv?: string): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** Serves repositories without a master. Only `update` fetches. */
async function serve(
  t: ExecutionContext,
  options: Partial<MasterOptions>,
  directory: string = temporaryDirectory(t),
): Promise<Served> {
  const config = resolveMasterConfig({
    git: git({}),
    ...options,
    fileserverBackend: ['gitfs'],
  });
  const closing = new AbortController();
  const log = createLogger('quiet');
  const mirrors = new GitMirrors(directory, { limits: config.git, log, closing: closing.signal });
  const backend = await openGitfs(gitfsRemotesOf(config), mirrors);
  const close = async (): Promise<void> => {
    closing.abort();
    await mirrors.close();
  };
  t.teardown(close);
  return {
    backend,
    update: async () => backend.update?.(),
    text: async (place, saltenv = 'base') => {
      const found = await backend.find(place, saltenv);
      return found && Buffer.from(await found.read(0, found.stat.size)).toString();
    },
    files: async (saltenv = 'base') => (await backend.lists(saltenv)).files,
    close,
  };
}

function git(limits: Partial<GitLimits>): GitLimits {
  return { ...defaultsOf(gitLimits), protocols: ['file'], timeout: 240, ...limits };
}

function remote(
  url: string,
  parameters: Readonly<Record<string, string | boolean | readonly string[]>> = {},
): NonNullable<MasterOptions['gitfsRemotes']>[number] {
  return { id: url, parameters, saltenv: [] };
}

function repository(t: ExecutionContext): GitRepository {
  return new GitRepository(path.join(temporaryDirectory(t), 'remote'));
}

test('branches and tags are environments, and a push is served after the next fetch', async (t) => {
  const repo = repository(t);
  layOut(repo.directory, { 'top.sls': 'base', 'dir/tool': 'run' });
  chmodSync(repo.path('dir/tool'), 0o755);
  repo.commit({});
  repo.git('tag', 'v1');
  repo.git('checkout', '--quiet', '-b', 'feature/x');
  repo.commit({ 'top.sls': 'feature' });
  const served = await serve(t, { gitfsRemotes: [remote(repo.url)] });
  t.deepEqual(served.backend.envs(), []);
  await served.update();
  t.deepEqual([...served.backend.envs()].sort(), ['base', 'feature/x', 'v1']);
  t.is(await served.text('top.sls'), 'base');
  t.is(await served.text('top.sls', 'feature/x'), 'feature');
  t.is((await served.backend.find('dir/tool', 'v1'))?.stat.mode, 0o100755);
  const lists = await served.backend.lists('base');
  t.deepEqual(lists.files, ['dir/tool', 'top.sls']);
  t.deepEqual(lists.dirs, ['dir']);
  repo.commit({ 'top.sls': 'pushed' });
  repo.git('branch', 'new');
  t.is(await served.text('top.sls', 'feature/x'), 'feature', 'nothing is fetched for a request');
  await served.update();
  t.is(await served.text('top.sls', 'feature/x'), 'pushed');
  t.is(await served.text('top.sls', 'new'), 'pushed');
  t.is(await served.backend.lists('base'), lists, 'what did not change is the same object');
  repo.git('checkout', '--quiet', 'master');
  repo.git('branch', '--delete', '--force', 'new');
  await served.update();
  t.false(served.backend.envs().includes('new'));
  t.is(await served.text('top.sls', 'new'), undefined);
});

test('if a remote is unreachable, the last state stays; a rewritten history replaces it', async (t) => {
  const repo = repository(t);
  repo.commit({ a: 'one' });
  const directory = temporaryDirectory(t);
  const options = { gitfsRemotes: [remote(repo.url)] };
  const served = await serve(t, options, directory);
  await served.update();
  renameSync(repo.directory, `${repo.directory}-away`);
  const error = await t.throwsAsync(served.update(), { code: 'ERR_GIT' });
  t.true(error.message.includes(repo.url), error.message);
  t.is(await served.text('a'), 'one');
  await served.close();
  const again = await serve(t, options, directory);
  t.is(await again.text('a'), 'one', 'after a restart, too');
  renameSync(`${repo.directory}-away`, repo.directory);
  repo.git('checkout', '--quiet', '--orphan', 'other');
  repo.commit({ a: 'rewritten' });
  repo.git('branch', '--force', 'master', 'other');
  await again.update();
  t.is(await again.text('a'), 'rewritten');
});

test('without git the last state is served, and the error names the cause', async (t) => {
  const repo = repository(t);
  repo.commit({ a: 'one' });
  const directory = temporaryDirectory(t);
  const served = await serve(t, { gitfsRemotes: [remote(repo.url)] }, directory);
  await served.update();
  await served.close();
  const without = await serve(
    t,
    { gitfsRemotes: [remote(repo.url)], git: git({ program: '/nonexistent/git' }) },
    directory,
  );
  const error = await t.throwsAsync(without.update(), { code: 'ERR_GIT' });
  t.true(error.message.includes(`${repo.url}: the program /nonexistent/git is not installed`));
  t.is(await without.text('a'), 'one');
});

test('if git is killed during a file, the update fails, and the next one succeeds', async (t) => {
  const repo = repository(t);
  repo.commit({ a: 'content '.repeat(100_000) });
  const killed = 'git "$@" | dd bs=1024 count=100 2>/dev/null; kill -KILL $$';
  const program = fakeGit(t, { '*--batch': killed }, 'exec git "$@"');
  const served = await serve(t, { gitfsRemotes: [remote(repo.url)], git: git({ program }) });
  await t.throwsAsync(within('the update', served.update()), {
    code: 'ERR_GIT',
    message: /git exited before it answered/,
  });
  writeFileSync(program, '#!/bin/sh\nexec git "$@"\n');
  await within('the update', served.update());
  t.is((await served.text('a'))?.length, 800_000);
});

/**
 * Creates a program in place of git, with its behaviour for some subcommands and for all others.
 */
function fakeGit(
  t: ExecutionContext,
  cases: Readonly<Record<string, string>>,
  other: string,
  program: string = path.join(temporaryDirectory(t), 'git'),
): string {
  const lines = Object.entries(cases).map(([words, does]) => `${words}) ${does};;`);
  const script = `#!/bin/sh\ncase "$*" in ${lines.join(' ')} *) ${other};; esac\n`;
  writeFileSync(program, script, { mode: 0o755 });
  return program;
}

test('no error or reply shows the password in an address', async (t) => {
  const url = 'https://me:pass@word@git.invalid/x';
  const refs = `printf '${'a'.repeat(40)}\\0commit\\0\\0refs/heads/master\\n'`;
  const program = fakeGit(t, { '*for-each-ref*': refs }, 'exit 0');
  const options = { git: git({ program, protocols: ['https'] }) };
  const served = await serve(t, { ...options, gitfsRemotes: [remote(url)] });
  await t.throwsAsync(served.update(), {
    code: 'ERR_GIT',
    message: 'https://git.invalid/x: git exited before it answered',
  });
  const config = resolveMasterConfig(options);
  const remotes = gitPillarRemotesOf([remote(`master ${url}`)], config);
  const closing = new AbortController();
  const mirrors = new GitMirrors(temporaryDirectory(t), {
    limits: config.git,
    log: createLogger('quiet'),
    closing: closing.signal,
  });
  for (const repo of [undefined, url, 'https://git.invalid/x', 'master https://git.invalid/x']) {
    const answers = await gitPillarUpdater(remotes, mirrors).update({ repo });
    t.deepEqual([...answers.keys()], ['master https://git.invalid/x']);
  }
});

test('an unchanged remote is fetched and not read again', async (t) => {
  const runs = path.join(temporaryDirectory(t), 'runs');
  const refs = (commit: string): string =>
    `printf '${commit.repeat(40)}\\0commit\\0\\0refs/heads/master\\n'`;
  const program = path.join(path.dirname(runs), 'git');
  const write = (commit: string): string =>
    fakeGit(
      t,
      {
        '*for-each-ref*': refs(commit),
        // The program returns an empty tree for every request.
        '*--batch': `echo read >> ${runs}; while read -r _; do printf '%040d tree 0\\n\\n' 0; done`,
      },
      'exit 0',
      program,
    );
  write('a');
  const served = await serve(t, { gitfsRemotes: [remote('file:///x')], git: git({ program }) });
  const reads = (): number => readFileSync(runs, 'utf8').split('\n').length - 1;
  for (let i = 0; i < 3; i++) await served.update();
  t.is(reads(), 1);
  write('b');
  await served.update();
  t.is(reads(), 2);
});

test('invalid paths, links out of the root, submodules and .git are not served', async (t) => {
  const repo = repository(t);
  const outside = path.join(temporaryDirectory(t), 'secret');
  writeFileSync(outside, 'secret');
  repo.commit({
    ...{ 'dir/file': 'inside', '-x': 'dash', 'a?saltenv=b': 'question' },
    absolute: { link: outside },
    rooted: { link: '/dir/file' },
    up: { link: '../../../../../../../../etc/passwd' },
    'dir/inner': { link: '../dir/file' },
    folder: { link: 'dir' },
    config: { link: '.git/config' },
    loop: { link: 'loop' },
  });
  const [blob = ''] = [repo.git('rev-parse', 'HEAD:dir/file')];
  const head = repo.git('rev-parse', 'HEAD');
  const inner = repo.tree([['100644', 'config', blob]]);
  const hostile = repo.tree([
    ['40000', '.git', inner],
    ['40000', '.GIT ', inner],
    ['40000', 'git~1', inner],
    ['100644', '..', blob],
    ['100644', '../../escape', blob],
    ['100644', '.', blob],
    ['100644', 'fine', blob],
    ['160000', 'submodule', head],
  ]);
  const commit = repo.git('commit-tree', hostile, '-m', 'hostile');
  repo.git('branch', 'hostile', commit);
  const served = await serve(t, { gitfsRemotes: [remote(repo.url)] });
  await served.update();
  t.deepEqual(await served.files('hostile'), ['fine']);
  for (const place of ['.git/config', '../../escape', 'submodule', '.git/HEAD']) {
    t.is(await served.text(place, 'hostile'), undefined, place);
    t.is(await served.text(place), undefined, place);
  }
  t.is(await served.text('dir/inner'), 'inside');
  t.is(await served.text('folder/file'), 'inside');
  t.is(await served.text('-x'), 'dash');
  t.is(await served.text('a?saltenv=b'), 'question');
  for (const link of ['absolute', 'rooted', 'up', 'config', 'loop']) {
    t.is(await served.text(link), undefined, link);
  }
});

test('hooks in the fetched repository never run', async (t) => {
  const repo = repository(t);
  repo.commit({ a: 'one' });
  const directory = temporaryDirectory(t);
  const served = await serve(t, { gitfsRemotes: [remote(repo.url)] }, directory);
  await served.update();
  const mark = path.join(temporaryDirectory(t), 'ran');
  for (const name of readdirSync(directory)) {
    const hooks = path.join(directory, name, 'repository', 'hooks');
    mkdirSync(hooks, { recursive: true });
    for (const hook of ['reference-transaction', 'pre-auto-gc']) {
      writeFileSync(path.join(hooks, hook), `#!/bin/sh\ntouch ${mark}\n`, { mode: 0o755 });
    }
  }
  repo.commit({ a: 'two' });
  await served.update();
  t.is(await served.text('a'), 'two');
  t.false(existsSync(mark));
});

test('ext, file and local paths are refused unless protocols names them', (t) => {
  for (const url of ['ext::sh -c touch% /tmp/x', 'file:///srv/x', '/srv/x', 'fd::17', 'srv/x']) {
    const options = { fileserverBackend: ['gitfs'] as const, gitfsRemotes: [remote(url)] };
    t.throws(() => resolveMasterConfig(options), {
      message: /is not permitted: saltbridge: git: protocols/,
    });
  }
  t.notThrows(() =>
    resolveMasterConfig({
      fileserverBackend: ['gitfs'],
      gitfsRemotes: [remote('/srv/x')],
      git: git({}),
    }),
  );
});

test('a repository over its limits is reported by name, and the last state stays', async (t) => {
  const repo = repository(t);
  repo.commit({ a: 'one', b: 'two' });
  const directory = temporaryDirectory(t);
  const limits = (given: Partial<GitLimits>): Partial<MasterOptions> => ({
    gitfsRemotes: [remote(repo.url)],
    git: git(given),
  });
  let served = await serve(t, limits({ maxFiles: 3, maxBytes: 200_000 }), directory);
  await served.update();
  repo.commit({ b: 'two'.repeat(40_000) });
  await served.update();
  repo.commit({ a: 'one'.repeat(40_000) });
  const together = { code: 'ERR_GIT', message: /exceed 200000 bytes/ };
  await t.throwsAsync(served.update(), together, 'with what came by an earlier update');
  const contents = readdirSync(directory, { recursive: true, encoding: 'utf8' });
  t.is(contents.filter((name) => /\/files\/\w\w\/\w+$/.test(name)).length, 3, 'none of it stays');
  await served.close();
  const restarted = await serve(t, limits({ maxBytes: 200_000 }), directory);
  await t.throwsAsync(restarted.update(), together, 'and before a restart');
  await restarted.close();
  served = await serve(t, limits({ maxFiles: 3, maxBytes: 200_000 }), directory);
  repo.git('reset', '--quiet', '--hard', 'HEAD~1');
  repo.commit(Object.fromEntries(Array.from({ length: 4 }, (_, i) => [`f${i}`, `${i}`])));
  const many = await t.throwsAsync(served.update(), {
    code: 'ERR_GIT',
    message: /more than 3 files/,
  });
  t.true(many.message.startsWith(repo.url));
  t.is(await served.text('a'), 'one');
  t.is(await served.text('f1'), undefined);
  repo.git('reset', '--quiet', '--hard', 'HEAD~1');
  repo.commit({ a: 'zero'.repeat(200_000) });
  await t.throwsAsync(served.update(), { code: 'ERR_GIT', message: /exceed 200000 bytes/ });
  t.is(await served.text('a'), 'one');
  t.deepEqual(await served.files(), ['a', 'b']);
  await served.close();
  // A small number of git objects represents many files.
  let tree = repo.git('rev-parse', 'HEAD~1^{tree}');
  for (let level = 0; level < 8; level++) {
    tree = repo.tree(Array.from({ length: 9 }, (_, i) => ['40000', `d${i}`, tree] as const));
  }
  repo.git('update-ref', 'refs/heads/master', repo.git('commit-tree', tree, '-m', 'bomb'));
  const bomb = await serve(t, limits({}), directory);
  await t.throwsAsync(bomb.update(), { code: 'ERR_GIT', message: /more than 100000 files/ });
  t.is(await bomb.text('a'), 'one');
});

/** Commits a tree that git itself would not create, and sets the branch `master` to it. */
function commitTree(repo: GitRepository, tree: string): void {
  repo.git('update-ref', 'refs/heads/master', repo.git('commit-tree', tree, '-m', 'change'));
}

test('a few directories with long names are refused if the paths below them are too long together', async (t) => {
  const repo = repository(t);
  const blob = repo.gitWith('x', 'hash-object', '-w', '--stdin');
  let tree = repo.tree(Array.from({ length: 80 }, (_, i) => ['100644', `f${10 + i}`, blob]));
  commitTree(repo, tree);
  const served = await serve(t, {
    gitfsRemotes: [remote(repo.url)],
    git: git({ maxFiles: 100 }),
  });
  await served.update();
  t.is((await served.files()).length, 80);
  for (let depth = 0; depth < 10; depth += 1) {
    tree = repo.tree([['40000', 'd'.repeat(100), tree]]);
  }
  commitTree(repo, tree);
  await t.throwsAsync(served.update(), {
    code: 'ERR_GIT',
    message: /the paths of a tree have more than 25600 characters together/,
  });
  t.is((await served.files()).length, 80);
});

test('a directory with too many entries is refused before they are all read', async (t) => {
  const repo = repository(t);
  const link = repo.gitWith('x'.repeat(5_000), 'hash-object', '-w', '--stdin');
  const entries = (count: number): string =>
    repo.tree(
      Array.from({ length: count }, (_, i) => [i < 4 ? '100644' : '120000', `f${i}`, link]),
    );
  const served = await serve(t, { gitfsRemotes: [remote(repo.url)], git: git({ maxFiles: 3 }) });
  commitTree(repo, entries(5));
  await t.throwsAsync(served.update(), { code: 'ERR_GIT', message: /more than 3 files/ });
  commitTree(repo, entries(3));
  await t.notThrowsAsync(served.update());
});

test('a large directory is read in slices', async (t) => {
  const repo = repository(t);
  const blob = repo.gitWith('x', 'hash-object', '-w', '--stdin');
  commitTree(
    repo,
    repo.tree(Array.from({ length: 2_000 }, (_, i) => ['100644', `f${1e4 + i}`, blob])),
  );
  const served = await serve(t, { gitfsRemotes: [remote(repo.url)] });
  const slices = await slicesOf(served.update);
  t.true(slices.length >= 9, `${slices.length} slices`);
  t.true(
    slices.every((steps) => steps <= 1.1 * maxSliceSteps),
    String(slices),
  );
  t.is((await served.files()).length, 2_000);
});

test('many branches and tags are read in slices', async (t) => {
  const repo = repository(t);
  repo.commit({ a: 'one' });
  repo.branches(...Array.from({ length: 800 }, (_, i) => `b${i}`));
  const served = await serve(t, {
    gitfsRemotes: [remote(repo.url)],
    gitfsDisableSaltenvMapping: true,
  });
  const slices = await slicesOf(served.update);
  t.true(slices.length >= 4, `${slices.length} slices`);
  t.true(
    slices.every((steps) => steps <= 1.1 * maxSliceSteps),
    String(slices),
  );
  t.deepEqual(served.backend.envs(), ['base']);
});

test('the state of a large directory is stored in slices', async (t) => {
  const repo = repository(t);
  const blob = repo.gitWith('x', 'hash-object', '-w', '--stdin');
  const large = repo.tree(Array.from({ length: 2_000 }, (_, i) => ['100644', `f${1e4 + i}`, blob]));
  const served = await serve(t, { gitfsRemotes: [remote(repo.url)] });
  commitTree(repo, repo.tree([['40000', 'd', large]]));
  await served.update();
  commitTree(
    repo,
    repo.tree([
      ['100644', 'a', blob],
      ['40000', 'd', large],
    ]),
  );
  // The large directory is not read again, but stored again.
  const slices = await slicesOf(served.update);
  t.true(slices.length >= 4, `${slices.length} slices`);
  t.true(
    slices.every((steps) => steps <= 1.1 * maxSliceSteps),
    String(slices),
  );
});

test('names that are too long for a file system are not served', async (t) => {
  const repo = repository(t);
  const blob = repo.gitWith('x', 'hash-object', '-w', '--stdin');
  const served = await serve(t, { gitfsRemotes: [remote(repo.url)], git: git({ maxFiles: 100 }) });
  const names = ['a', 'n'.repeat(255), 'n'.repeat(256), '\ufdfa'.repeat(5_000)];
  commitTree(repo, repo.tree(names.map((name) => ['100644', name, blob] as const)));
  await served.update();
  t.deepEqual(await served.files(), ['a', 'n'.repeat(255)]);
});

test('a directory is refused before it is read if its names are too long together', async (t) => {
  const repo = repository(t);
  const blob = repo.gitWith('x', 'hash-object', '-w', '--stdin');
  const served = await serve(t, { gitfsRemotes: [remote(repo.url)], git: git({ maxFiles: 100 }) });
  commitTree(repo, repo.tree([['100644', 'n'.repeat(30_000), blob]]));
  await t.throwsAsync(served.update(), { code: 'ERR_GIT', message: /more than 100 files/ });
});

test('git does not build a large file from a small delta', async (t) => {
  const repo = repository(t);
  const content = Buffer.alloc(65_536, 'x');
  const served = await serve(t, {
    gitfsRemotes: [remote(repo.url)],
    git: git({ maxBytes: 100_000_000 }),
  });
  const commitRepeated = (times: number): void => {
    const [base, large] = repo.repeatedFile(content, times);
    const entries = [
      ['100644', 'base', base],
      ['100644', 'large', large],
    ] as const;
    commitTree(repo, repo.tree(entries));
  };
  commitRepeated(100);
  await served.update();
  t.is((await served.text('large'))?.length, 6_553_600);
  commitRepeated(1600);
  await t.throwsAsync(served.update(), { code: 'ERR_GIT', message: /over limit 100000000/ });
});

test('fetching from a silent remote ends after the time limit', async (t) => {
  const server = createServer(() => {}).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : 0;
  const served = await serve(t, {
    gitfsRemotes: [remote(`git://127.0.0.1:${port}/x`)],
    git: git({ protocols: ['git'], timeout: 1 }),
  });
  await t.throwsAsync(served.update(), { code: 'ERR_GIT', message: /timed out after 1 s/ });
});

/** Starts a server for git's own protocol that answers each request with these parts. */
async function serverThatSends(t: ExecutionContext, parts: () => Iterable<string>) {
  const sent = { bytes: 0 };
  const server = createServer(async (socket) => {
    socket.on('error', () => {});
    await once(socket, 'data');
    await pipeline(Readable.from(parts()), socket).catch(() => {});
    sent.bytes += socket.bytesWritten;
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const address = server.address();
  return { url: `git://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/x`, sent };
}

/** Returns text as a packet of git's protocol. */
function packet(text: string): string {
  return (text.length + 4).toString(16).padStart(4, '0') + text;
}

test('a remote that lists too many branches is refused', async (t) => {
  for (const [nameLength, total] of [
    [1, 1_000_000],
    [60_000, 2_500],
  ] as const) {
    const { url, sent } = await serverThatSends(t, function* () {
      yield packet(`${'1'.repeat(40)} HEAD\0agent=x\n`);
      const count = Math.ceil(10_000 / nameLength);
      for (let index = 0; index < total; index += count) {
        const names = Array.from(
          { length: count },
          (_, at) => 'a'.repeat(nameLength) + (index + at),
        );
        yield names.map((it) => packet(`${'1'.repeat(40)} refs/heads/${it}\n`)).join('');
      }
    });
    const served = await serve(t, {
      gitfsRemotes: [remote(url)],
      git: git({ protocols: ['git'] }),
    });
    await t.throwsAsync(served.update(), {
      code: 'ERR_GIT',
      message: /more than 400000 lines or 67108864 bytes/,
    });
    t.true(sent.bytes < 2 * 67_108_864, `${sent.bytes} bytes`);
  }
});

test('a redirect of a remote is not followed, and the error says what to do', async (t) => {
  const asked: string[] = [];
  const elsewhere = createHttpServer(({ url = '' }, response) => {
    asked.push(url);
    response.writeHead(404).end();
  }).listen(0, '127.0.0.1');
  await once(elsewhere, 'listening');
  const portOf = (server: typeof elsewhere): number =>
    Number(Reflect.get(Object(server.address()), 'port'));
  const server = createHttpServer(({ url = '' }, response) => {
    const location = `http://127.0.0.1:${portOf(elsewhere)}${url}`;
    response.writeHead(302, { location }).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    elsewhere.close();
  });
  const url = `http://127.0.0.1:${portOf(server)}/x`;
  const served = await serve(t, {
    gitfsRemotes: [remote(url, { user: 'me', password: 'pass', insecure_auth: true })],
    git: git({ protocols: ['http'] }),
  });
  await t.throwsAsync(served.update(), { code: 'ERR_GIT', message: /follows no redirects/ });
  t.deepEqual(asked, []);
});

test('a file of credentials readable by others is not used', async (t) => {
  const repo = repository(t);
  repo.commit({ a: 'one' });
  const credentialsFile = path.join(temporaryDirectory(t), 'credentials');
  writeFileSync(credentialsFile, 'https://u:p@a.test\n');
  chmodSync(credentialsFile, 0o640);
  const served = await serve(t, {
    gitfsRemotes: [remote(repo.url)],
    git: git({ credentialsFile }),
  });
  await t.throwsAsync(served.update(), { code: 'ERR_GIT', message: /accessible to other users/ });
  chmodSync(credentialsFile, 0o600);
  await served.update();
  t.is(await served.text('a'), 'one');
});

test('over http a remote is fetched with user and password, which no error contains', async (t) => {
  const repo = repository(t);
  repo.commit({ a: 'one' });
  repo.git('update-server-info');
  const asked: (string | undefined)[] = [];
  const server = createHttpServer(async ({ url = '', headers }, response) => {
    asked.push(headers.authorization);
    const wanted = `Basic ${Buffer.from('me:pass word').toString('base64')}`;
    if (headers.authorization !== wanted) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end();
      return;
    }
    const place = repo.path('.git', path.normalize(url.split('?')[0] ?? '').slice('/x/'.length));
    const content = await readFile(place).catch(() => undefined);
    response.writeHead(content === undefined ? 404 : 200).end(content);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/x`;
  const options = (password: string): Partial<MasterOptions> => ({
    gitfsRemotes: [remote(url, { user: 'me', password, insecure_auth: true })],
    git: git({ protocols: ['http'] }),
  });
  const wrong = await serve(t, options('wrong'));
  const error = await t.throwsAsync(wrong.update(), { code: 'ERR_GIT' });
  t.true(error.message.startsWith(url) && !error.message.includes('wrong'), error.message);
  const right = await serve(t, options('pass word'));
  await right.update();
  t.is(await right.text('a'), 'one');
  t.true(asked.includes(undefined));
});

const sshd = '/usr/sbin/sshd';
const withSshd = testWhere(existsSync(sshd), 'the package openssh-server');

withSshd('over ssh a remote is fetched with a key, unless the host key has changed', async (t) => {
  const directory = temporaryDirectory(t);
  const at = (name: string): string => path.join(directory, name);
  for (const name of ['host', 'other', 'own']) {
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', at(name)]);
  }
  const port = await freePort();
  const know = (host: string): void =>
    writeFileSync(at('known'), `[127.0.0.1]:${port} ${readFileSync(at(`${host}.pub`), 'utf8')}`);
  // This is required if the process runs as root.
  if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true });
  const listen = async (host: string): Promise<() => Promise<void>> => {
    const options = [
      ...['ListenAddress=127.0.0.1', `AuthorizedKeysFile=${at('own.pub')}`, 'StrictModes=no'],
      ...['PidFile=none', 'UsePAM=no', 'PermitRootLogin=prohibit-password'],
    ];
    const words = ['-D', '-e', '-f', '/dev/null', '-p', String(port), '-h', at(host)];
    const server = spawn(sshd, [...words, ...options.flatMap((it) => ['-o', it])]);
    const end = once(server, 'exit');
    t.teardown(() => server.kill());
    let log = '';
    for await (const chunk of server.stderr) {
      log += chunk;
      if (log.includes('Server listening')) break;
    }
    return async () => {
      server.kill();
      await end;
    };
  };
  const repo = repository(t);
  repo.commit({ a: 'one' });
  const url = `ssh://${userInfo().username}@127.0.0.1:${port}${repo.directory}`;
  const served = await serve(t, {
    gitfsRemotes: [remote(url, { privkey: at('own') })],
    git: git({ protocols: ['ssh'], knownHosts: at('known') }),
  });

  know('host');
  const close = await listen('host');
  await served.update();
  t.is(await served.text('a'), 'one');
  await close();

  repo.commit({ a: 'two' });
  await listen('other');
  const error = await t.throwsAsync(served.update(), { code: 'ERR_GIT', message: /host key/i });
  t.true(error.message.startsWith(url.replace(/\/\/.*@/, '//')), error.message);
  t.is(await served.text('a'), 'one', 'the last state');
  know('other');
  await served.update();
  t.is(await served.text('a'), 'two');
});

test('git daemon: root, mountpoint, whitelist, fallback and mapped environments', async (t) => {
  const repo = repository(t);
  repo.commit({ 'salt/a': 'master', 'other/b': 'hidden' });
  repo.git('checkout', '--quiet', '-b', 'dev');
  repo.commit({ 'salt/a': 'dev' });
  repo.git('branch', 'secret');
  const port = await freePort();
  const base = path.dirname(repo.directory);
  const words = ['daemon', '--export-all', `--base-path=${base}`, '--listen=127.0.0.1'];
  const daemon = spawn('git', [...words, `--port=${port}`, '--verbose', base], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  t.teardown(() => void daemon.kill());
  await once(daemon.stderr, 'data');
  const parameters = {
    root: 'salt',
    mountpoint: 'salt://mnt',
    fallback: 'dev',
    saltenv_whitelist: ['[b-z]*'],
    saltenv_blacklist: ['*(', 'se(c|d)ret'],
  };
  const served = await serve(t, {
    gitfsRemotes: [
      {
        id: `git://127.0.0.1:${port}/remote`,
        parameters,
        saltenv: [{ saltenv: 'prod', ref: 'master', root: '' }],
      },
    ],
    git: git({ protocols: ['git'] }),
  });
  await served.update();
  t.deepEqual([...served.backend.envs()].sort(), ['base', 'dev', 'prod']);
  t.deepEqual(await served.files(), ['mnt/a']);
  t.is(await served.text('mnt/a'), 'master');
  t.is(await served.text('a'), undefined);
  t.is(await served.text('mnt/a', 'nowhere'), 'dev');
  t.is(await served.text('mnt/a', 'secret'), undefined);
  t.deepEqual(await served.files('prod'), ['mnt/other/b', 'mnt/salt/a']);
});

// `npm run campaign -- gitfs` uses 2,000 files in 50 branches.
const [fileCount, branchCount] = effort === 1 ? [60, 10] : [2000, 50];

test(`${fileCount} files in ${branchCount} branches are fetched, and a push transfers only its changes`, async (t) => {
  const repo = repository(t);
  const files = Array.from({ length: fileCount }, (_, i) => [`d${i % 40}/f${i}`, `content ${i}`]);
  repo.commit(Object.fromEntries(files));
  repo.branches(...Array.from({ length: branchCount - 1 }, (_, i) => `b${i}`));
  const asked = path.join(temporaryDirectory(t), 'asked');
  const program = fakeGit(t, { '*--batch': `tee ${asked} | git "$@"` }, 'exec git "$@"');
  const served = await serve(t, { gitfsRemotes: [remote(repo.url)], git: git({ program }) });
  await served.update();
  t.is(served.backend.envs().length, branchCount);
  t.is((await served.files('b8')).length, fileCount);
  repo.git('checkout', '--quiet', 'b7');
  repo.commit({ 'd0/f0': 'pushed' });
  await served.update();
  t.is(await served.text('d0/f0', 'b7'), 'pushed');
  t.is(await served.text('d0/f0', 'b8'), 'content 0');
  const objects = readFileSync(asked, 'utf8').trim().split('\n');
  t.is(objects.length, branchCount + 2, 'the tree of each branch, one directory and one file');
});

test('a master fetches by its clock and with fileserver.update, beside file_roots', async (t) => {
  const repo = repository(t);
  repo.commit({ 'in-git': 'one', both: 'git' });
  const root = temporaryDirectory(t);
  mkdirSync(path.join(root, 'srv'));
  writeFileSync(path.join(root, 'srv', 'both'), 'roots');
  const master = createMaster({
    interface: '127.0.0.1',
    publishPort: 0,
    requestPort: 0,
    pkiDir: path.join(root, 'pki'),
    cacheDir: path.join(root, 'cache'),
    socketDir: path.join(root, 's'),
    stateDir: path.join(root, 'state'),
    fileRoots: { base: [path.join(root, 'srv')] },
    fileserverBackend: ['roots', 'gitfs'],
    gitfsRemotes: [remote(repo.url)],
    gitfsUpdateInterval: 1,
    git: { protocols: ['file'] },
  });
  await master.start();
  t.teardown(() => master.close());
  const list = async (backend?: string): Promise<unknown> => {
    const kwarg = backend === undefined ? {} : { backend };
    return (await master.runners.run({ fun: 'fileserver.file_list', kwarg })).return;
  };
  t.deepEqual(await list(), ['both', 'in-git']);
  t.deepEqual(await list('git'), ['both', 'in-git']);
  repo.commit({ later: 'two' });
  const { return: done } = await master.runners.run({ fun: 'fileserver.update' });
  t.true(done);
  t.deepEqual(await list('gitfs'), ['both', 'in-git', 'later']);
  repo.commit({ latest: 'three' });
  for (let tries = 0; tries < 100 && String(await list()) !== 'both,in-git,later,latest'; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  t.deepEqual(await list(), ['both', 'in-git', 'later', 'latest'].sort());
});
