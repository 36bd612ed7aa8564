import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createLogger } from '#master';
import { removeSite, type Site, writeSite } from '../control-plane.ts';
import { EmbeddedMinions } from '../embedded-minions.ts';
import { type Example, eventually, program, refusalOf, type Step } from '../example.ts';
import { WebService } from './service.ts';

const sources = fileURLToPath(new URL('../../examples/typescript-service', import.meta.url));

/**
 * A service that imports the library. It shows the start of the service, and calls from another
 * service.
 */
export const typescriptService: Example = {
  description: 'a service in TypeScript that is a master, with a catalog, a policy and HTTP',
  needs: () => [program('openssl', 'openssl'), program('curl', 'curl')],
  run: async (step) => {
    const site = await writeSite({ sources, users: ['dashboard'] });
    const minions = new EmbeddedMinions();
    const service = await WebService.start(
      site.directory,
      createLogger('error', process.stderr),
    ).catch((error: unknown) => {
      removeSite(site);
      throw error;
    });
    try {
      await runSteps(step, service, site, minions);
    } finally {
      await minions.close();
      await service.close();
      removeSite(site);
    }
  },
};

async function runSteps(
  step: Step,
  service: WebService,
  site: Site,
  minions: EmbeddedMinions,
): Promise<void> {
  const { master } = service.server;
  /** Names of the services that minions have restarted, in order. */
  const restarted: string[] = [];
  const functions = {
    'service.restart': ({
      kwargs: { name },
    }: {
      readonly kwargs: Readonly<Record<string, unknown>>;
    }) => {
      restarted.push(String(name));
      return true;
    },
    'service.status': () => true,
  };
  await step(
    'two minions send their keys, and the operator accepts them',
    async () => {
      const started = await Promise.all(
        ['web1', 'db1'].map((id) => minions.start(site, id, functions)),
      );
      await master.keys.accept({ match: '*' });
      await Promise.all(started.map(({ connected }) => connected));
      return (await master.keys.list()).map(({ id, state }) => `${id} ${state}`);
    },
    (keys) => keys.join() === 'db1 accepted,web1 accepted',
  );
  await step(
    'the service restarts the shop on a web server when its minion starts',
    () => eventually('the restart', () => service.restarts[0]),
    ({ status }) => status === 'succeeded' && restarted.join() === 'shop',
  );
  await step(
    'a repeated request is executed once',
    async () => {
      const outcomes = [];
      for (let sent = 0; sent < 3; sent++) {
        outcomes.push(await service.restart('web1', 'cache', 'request-7'));
      }
      return outcomes.map(({ id, status }) => `${id} ${status}`);
    },
    (outcomes) => new Set(outcomes).size === 1 && restarted.join() === 'shop,cache',
  );
  await step(
    'a parameter that the catalog does not define is rejected; the error names it',
    () => refusalOf(service.restart('web1', 'ssh')),
    (refusal) =>
      /^ERR_COMMAND_PARAMETERS web\.restart: name: must be one of "shop", "cache"/.test(refusal),
  );
  await step(
    'a command on a minion that no rule names is rejected',
    () => refusalOf(service.restart('db1', 'shop')),
    (refusal) => refusal.startsWith('ERR_COMMAND_DENIED '),
  );
  const http = await logIn(site, 'dashboard');
  await step(
    'over HTTP, another service lists the commands that it may call',
    async () => {
      const { commands } = (await http('commands')) as { commands: { name: string }[] };
      return commands.map(({ name }) => name);
    },
    (names) => names.join() === 'web.status',
  );
  await step(
    'and calls one',
    () => http('commands/web.status/run', { target: 'web*', params: { name: 'shop' } }),
    (lines) => JSON.stringify(lines).includes('"status":"succeeded"'),
  );
  await step(
    'a call that no rule permits is rejected; the error says how to list the permitted commands',
    () => http('commands/web.restart/run', { target: 'web*', params: { name: 'shop' } }),
    (lines) => JSON.stringify(lines).includes('ERR_COMMAND_DENIED'),
  );
}

/**
 * Logs in over HTTPS. @returns a function that sends a request to the bridge: GET without a body,
 * POST with a body
 */
async function logIn(
  { url, certificate, passwords }: Site,
  user: string,
): Promise<(path: string, body?: object) => Promise<unknown>> {
  const curl = async (path: string, ...more: readonly string[]): Promise<string> => {
    const argv = ['--silent', '--cacert', certificate, ...more, `${url}${path}`];
    return (await promisify(execFile)('curl', argv)).stdout;
  };
  const credentials = { username: user, password: passwords.get(user), eauth: 'file' };
  const login = await curl('/login', '--json', JSON.stringify(credentials));
  const token = `X-Auth-Token: ${JSON.parse(login).return[0].token}`;
  return async (path, body) => {
    const more = body === undefined ? [] : ['--json', JSON.stringify(body)];
    const text = await curl(`/bridge/v1/${path}`, '--header', token, ...more);
    const values = text.split('\n').filter((line) => line !== '');
    return values.length === 1 ? JSON.parse(text) : values.map((line) => JSON.parse(line));
  };
}
