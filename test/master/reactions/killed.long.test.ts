/** The documented example, with libzmq and the command. The master is killed while it runs. */
import test, { type ExecutionContext } from 'ava';
import { connectMaster } from '#client';
import type { MasterApi, ReactionRun } from '#master';
import type { MinionFunction } from '#minion-protocol';
import { within } from '../../helpers/deadline.ts';
import { type KillableMaster, startKillable } from '../../helpers/killable-master.ts';

const policy = `
auto_accept: true
saltbridge:
  acl:
    signals:
      - tag: infra/puppet/requested
        minions: "jenkins*"
        schema:
          type: object
          required: [env]
          properties: { env: { enum: [test, live] } }
          additionalProperties: false
    rules:
      puppet on the web tier:
        subject: { service: "reaction:puppet" }
        action: publish
        resource: { fun: puppet.run, within: "web*" }
  reactions:
    puppet:
      on: infra/puppet/requested
      from: "jenkins*"
      do:
        run:
          fun: puppet.run
          target: "web*"
          kwargs: { environment: { from: data.env } }
      timeout: 60
`;

interface Field extends KillableMaster {
  readonly api: MasterApi;
}

async function startField(t: ExecutionContext): Promise<Field> {
  const field = await startKillable(t, policy);
  return { ...field, api: connectMaster({ socketPath: field.socketPath }) };
}

async function ended({ api }: Field, count: number): Promise<readonly ReactionRun[]> {
  for (;;) {
    const runs = (await api.reactions.runs()).filter(({ endedAt }) => endedAt !== undefined);
    if (runs.length >= count) return runs;
  }
}

test('Jenkins may only run puppet, and a killed master still completes the run', async (t) => {
  t.timeout(90_000);
  const field = await startField(t);
  const asked: unknown[] = [];
  let goOn: () => void = () => {};
  const held = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  let began: () => void = () => {};
  const beginning = new Promise<void>((resolve) => {
    began = resolve;
  });
  const run: MinionFunction = async ({ args, kwargs }) => {
    asked.push([...args, { ...kwargs }]);
    began();
    await held;
    return true;
  };
  await field.join('web1', { 'puppet.run': run });
  const jenkins = await field.join('jenkins1', { 'puppet.run': run });

  await jenkins.fire('infra/puppet/requested', { env: 'prod' });
  await jenkins.fire('infra/other/requested', { env: 'live' });
  await jenkins.fire('infra/puppet/requested', { env: 'live' });
  await within('the first run', beginning);
  await jenkins.fire('infra/puppet/requested', { env: 'test' });
  await field.master.kill();
  goOn();

  field.master.spawn();
  await within('the next master', field.master.ready());
  const [later, earlier] = await within('both runs', ended(field, 2));
  t.is(earlier?.state, 'interrupted');
  t.is(later?.state, 'succeeded');
  t.deepEqual(
    asked,
    [{ environment: 'live' }, { environment: 'test' }].map((kwargs) => [kwargs]),
  );
  const job = await field.api.jobs.show(later?.jid ?? '');
  t.deepEqual(
    job.returns.map(({ minion }) => minion),
    ['web1'],
  );
});
