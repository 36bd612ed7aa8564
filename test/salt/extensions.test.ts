/** Salt's services as extensions: each can be left out, and then nothing of it is there. */

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test from 'ava';
import { saltServiceNames } from '#salt';

const program = fileURLToPath(new URL('left-out-program.ts', import.meta.url));

interface Seen {
  readonly loaded: readonly string[];
  readonly runners: readonly string[];
  readonly wheel: readonly string[];
}

/** What a master without the service has; without a name, a whole master. */
async function startWithout(service = ''): Promise<Seen> {
  const { stdout } = await promisify(execFile)(process.execPath, [program, service]);
  return JSON.parse(stdout);
}

/** The folder of each service, and functions that it alone has. */
const services: Readonly<
  Record<
    (typeof saltServiceNames)[number],
    { readonly folder: string; readonly runners?: RegExp; readonly wheel?: RegExp }
  >
> = {
  files: { folder: 'files', runners: /^(fileserver|saltutil)\./ },
  pillar: { folder: 'pillar', runners: /^(git_pillar|pillar)\./ },
  mine: { folder: 'mine', runners: /^(mine\.|cache\..*mine)/ },
  runners: { folder: 'runners', runners: /^(cache|jobs|manage|queue|sdb|test)\./ },
  wheel: { folder: 'wheel', wheel: /./ },
  orchestration: { folder: 'orchestrate', runners: /^state\./ },
  schedule: { folder: 'schedule' },
  reactor: { folder: 'reactor', runners: /^reactor\./ },
  peers: { folder: 'peers' },
  tops: { folder: 'tops' },
};

const whole = startWithout();

function inFolder({ loaded }: Seen, folder: string): readonly string[] {
  return loaded.filter((url) => url.includes(`/salt/${folder}/`));
}

for (const name of saltServiceNames) {
  test(`a master without ${name} loads no file of it and has none of its functions`, async (t) => {
    const { folder, runners = /^$/, wheel = /^$/ } = services[name];
    const [all, left] = [await whole, await startWithout(name)];
    t.not(inFolder(all, folder).length, 0);
    t.deepEqual(inFolder(left, folder), []);
    t.is(all.runners.filter((it) => runners.test(it)).length > 0, runners.source !== '^$');
    t.deepEqual(
      left.runners.filter((it) => runners.test(it)),
      [],
    );
    t.is(all.wheel.filter((it) => wheel.test(it)).length > 0, wheel.source !== '^$');
    t.deepEqual(
      left.wheel.filter((it) => wheel.test(it)),
      [],
    );
  });
}

test('a master without a cluster loads no file of it, and no package of NATS', async (t) => {
  const { loaded } = await whole;
  t.deepEqual(
    loaded.filter((url) => /\/(cluster|node_modules\/@nats-io)\//.test(url)),
    [],
  );
});
