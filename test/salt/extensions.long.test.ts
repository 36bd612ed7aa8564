/** Salt's services as extensions: each can be left out, and then nothing of it exists. */

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test from 'ava';
import { pino } from 'pino';
import type { PlainOptions } from '#config';
import { saltServiceNames } from '#salt';
import { type CreateMasterOptions, createMaster } from '#server';

const program = fileURLToPath(new URL('left-out-program.ts', import.meta.url));

interface Seen {
  readonly loaded: readonly string[];
  readonly requests: readonly string[];
  readonly runners: readonly string[];
  readonly wheel: readonly string[];
  readonly options: readonly string[];
  readonly methods: readonly string[];
}

/** Starts a master without a service, or a complete one, and returns what it has. */
async function startWithout(service = ''): Promise<Seen> {
  const { stdout } = await promisify(execFile)(process.execPath, [program, service]);
  return JSON.parse(stdout);
}

/** Names that only this service has, besides the folder of its code. */
type Parts = { readonly [Kind in Exclude<keyof Seen, 'loaded'>]?: RegExp };

const services: Readonly<
  Record<
    (typeof saltServiceNames)[number],
    Parts & {
      readonly folder: string;
      /** Some of its options with values. */
      readonly set?: PlainOptions;
      /** Names of these options in configuration files. */
      readonly warned?: readonly string[];
    }
  >
> = {
  files: {
    folder: 'files',
    requests: /^(_serve_file|_file_|_symlink_list|_dir_list)/,
    runners: /^(fileserver|saltutil)\./,
    wheel: /^file_roots\./,
    options: /^(file_|fileserver_|gitfs_)/,
    set: { fileRecv: true, limits: { pushedFiles: 7 } },
    warned: ['file_recv', 'saltbridge:limits:pushed_files'],
  },
  pillar: {
    folder: 'pillar',
    requests: /^_pillar$/,
    runners: /^(git_pillar|pillar)\./,
    options: /^(pillar|git_pillar_|ext_pillar)/,
    methods: /^pillar\./,
    set: { pillarOpts: true, pillarTrustsGrains: false },
    warned: ['pillar_opts', 'saltbridge:pillar_trusts_grains'],
  },
  mine: {
    folder: 'mine',
    requests: /^_mine/,
    runners: /^(mine\.|cache\..*mine)/,
    options: /^(mine_get|enforce_mine_cache)$/,
    set: { enforceMineCache: true },
    warned: ['enforce_mine_cache'],
  },
  runners: {
    folder: 'runners',
    runners: /^((cache|jobs|manage|queue|sdb|test)\.|state\.event$)/,
    options: /^runner_returns$/,
    set: { runnerReturns: false },
    warned: ['runner_returns'],
  },
  wheel: { folder: 'wheel', wheel: /./ },
  orchestration: {
    folder: 'orchestrate',
    runners: /^state\.(?!event$)/,
    set: { limits: { orchestrations: 3 } },
    warned: ['saltbridge:limits:orchestrations'],
  },
  schedule: {
    folder: 'schedule',
    set: { schedule: { hourly: { function: 'manage.up', seconds: 3600 } } },
    warned: ['schedule'],
  },
  reactor: {
    folder: 'reactor',
    runners: /^reactor\./,
    options: /^reactor$/,
    methods: /^reactions\./,
    set: { reactor: [{ tag: 'a/b', sls: ['/srv/a.sls'] }] },
    warned: ['reactor'],
  },
  peers: {
    folder: 'peers',
    requests: /^(minion_(pub|publish|runner)|pub_ret)$/,
    options: /^peer(_run)?$/,
    set: { peerRun: { 'web.*': ['manage.up'] } },
    warned: ['peer_run'],
  },
  tops: { folder: 'tops', requests: /^(_master_tops|_ext_nodes)$/ },
};

const whole = startWithout();

function inFolder({ loaded }: Seen, folder: string): readonly string[] {
  return loaded.filter((url) => url.includes(`/salt/${folder}/`));
}

const kinds = ['requests', 'runners', 'wheel', 'options', 'methods'] as const;

for (const name of saltServiceNames) {
  const { folder, set = {}, warned = [], ...parts } = services[name];

  test(`a master without ${name} loads no file of it and has nothing of it`, async (t) => {
    const [all, left] = [await whole, await startWithout(name)];
    t.not(inFolder(all, folder).length, 0);
    t.deepEqual(inFolder(left, folder), []);
    for (const kind of kinds) {
      const pattern = parts[kind];
      const own = ({ [kind]: names }: Seen): readonly string[] =>
        names.filter((it) => pattern?.test(it) === true);
      t.is(own(all).length > 0, pattern !== undefined, kind);
      t.deepEqual(own(left), [], kind);
    }
  });

  test(`an option of ${name} has no effect without it, and a warning says so`, (t) => {
    t.deepEqual(warningsOf({ without: [name] }), []);
    t.deepEqual(warningsOf(set), []);
    t.deepEqual(
      warningsOf({ ...set, without: [name] }),
      warned.map((option) => ({ option, extension: name })),
    );
  });
}

/** Returns the log's warnings about options of a service that is left out. */
function warningsOf(options: CreateMasterOptions): readonly object[] {
  const lines: string[] = [];
  const logger = pino({}, { write: (line: string) => lines.push(line) });
  createMaster({ ...options, logger });
  return lines.map((line) => {
    const { option, extension } = JSON.parse(line);
    return { option, extension };
  });
}

test('a master without a cluster loads no file of it, and no package of NATS', async (t) => {
  const { loaded } = await whole;
  t.deepEqual(
    loaded.filter((url) => /\/(cluster|node_modules\/@nats-io)\//.test(url)),
    [],
  );
});
