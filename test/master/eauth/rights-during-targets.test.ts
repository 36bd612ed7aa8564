/** Rights that change while the master evaluates the target of a job. */

import test, { type ExecutionContext } from 'ava';
import { resolveMasterConfig } from '#config';
import {
  AuthenticationError,
  AuthorizationError,
  type MasterExtension,
  masterServices,
} from '#master';
import { otherKey } from '../../helpers/connected-minion.ts';
import { directories, startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';

/** An extension that stops the evaluation of targets until the test permits it. */
function createTargetGate() {
  const asked = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  const extension: MasterExtension = {
    name: 'gate',
    open: async (host) => {
      const { targets } = host.use(masterServices.jobs);
      const resolveWithin = targets.resolveWithin.bind(targets);
      targets.resolveWithin = async (...given) => {
        asked.resolve();
        await gate.promise;
        return resolveWithin(...given);
      };
      return {};
    },
  };
  return { extension, asked: asked.promise, proceed: () => gate.resolve() };
}

const eauth = { sharedsecret: 'secret' };
const rights = (fun: string) => ({ eauth, externalAuth: { sharedsecret: { fred: [fun] } } });

/** Publishes a job of a user, and changes the rights of the user while its target is evaluated. */
async function publishDuring(
  t: ExecutionContext,
  change: (running: VectorMaster) => Promise<unknown>,
): Promise<{ readonly error: unknown; readonly tags: readonly string[] }> {
  const { extension, asked, proceed } = createTargetGate();
  const keys = [otherKey('m1')];
  const config = rights('test.echo');
  const running = await startVectorMaster(t, { keys, config, extensions: [extension] });
  const { master } = running;
  const credentials = { username: 'fred', password: 'secret', eauth: 'sharedsecret' };
  const fred = master.asUser((await master.logins.login(credentials)).token);
  let error: unknown;
  const events = await running.eventsDuring(async () => {
    const published = fred.jobs.publish({ tgt: 'm1', fun: 'test.echo' });
    await asked;
    await change(running);
    proceed();
    error = await published.catch((reason: unknown) => reason);
  });
  const tags = events.map(({ tag }) => tag).filter((tag) => tag.startsWith('salt/job/'));
  return { error, tags };
}

test('a job is not published if the token of its user is revoked while its target is evaluated', async (t) => {
  const { error, tags } = await publishDuring(t, ({ master }) =>
    master.logins.revoke({ user: 'fred' }),
  );
  t.true(error instanceof AuthenticationError && error.code === 'ERR_EAUTH_TOKEN');
  t.deepEqual(tags, []);
});

test('a job is not published if a reload takes away its right while its target is evaluated', async (t) => {
  const { error, tags } = await publishDuring(t, ({ master, directory }) =>
    master.reload(resolveMasterConfig({ ...directories(directory), ...rights('test.arg') })),
  );
  t.true(error instanceof AuthorizationError);
  t.deepEqual(tags, []);
});
