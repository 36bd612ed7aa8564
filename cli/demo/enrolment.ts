/** The demonstration of enrolment: a machine that claims for its key with a ticket, and a thief. */
import type { Bridge } from '../../heat-bridge/index.ts';
import type { Master } from '../../master/index.ts';
import {
  createMinion,
  createMinionKeys,
  dialZeromq,
  fingerprint,
  type Minion,
} from '../../minion-protocol/index.ts';
import { createSaltApi } from '../../salt-api/index.ts';
import type { Stage } from './stage.ts';

const id = 'web3';

/** @returns the minion, which has signed in */
export async function showEnrolment(stage: Stage, master: Master, bridge: Bridge): Promise<Minion> {
  stage.title(`${id} becomes a minion by a ticket; no operator accepts it`);
  // Over TLS in earnest; here nobody listens on the way.
  const api = await createSaltApi(master, { host: '127.0.0.1', plugins: [bridge.http] });
  const { port } = await api.listen();
  const url = `http://127.0.0.1:${port}${bridge.http.prefix}/enroll/claim`;
  try {
    const { ticket, enrolment } = await bridge.enroll.create({
      id,
      project: 'demo',
      format: 'none',
    });
    stage.line(`ticket     ${ticket.slice(0, 40)}…`);
    const keys = await createMinionKeys();
    const { requestPort } = await master.status();
    const transport = dialZeromq({ host: '127.0.0.1', requestPort });
    const minion = createMinion({ id, keys, transport, acceptanceWaitMs: 250 });
    const started = minion.start();
    stage.line(`claim      ${await claim(url, ticket, keys.publicPem)}`);
    await started;
    const { state } = await bridge.enroll.signedIn(enrolment.number);
    stage.line(`enrolment  ${state}`);
    const thief = await createMinionKeys();
    stage.line(`same ticket, another key: ${await claim(url, ticket, thief.publicPem)}`);
    return minion;
  } finally {
    await api.close();
  }
}

/** What the script in a machine's user-data does. @returns the answer */
async function claim(url: string, ticket: string, publicPem: string): Promise<string> {
  const body = JSON.stringify({ ticket, id, fingerprint: fingerprint(publicPem, 'sha256') });
  const headers = { 'content-type': 'application/json' };
  const answer = await fetch(url, { method: 'POST', headers, body });
  return `${answer.status} ${await answer.text()}`;
}
