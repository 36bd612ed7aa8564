import { createPublicKey, verify } from 'node:crypto';
import { Worker } from 'node:worker_threads';
import test, { type ExecutionContext } from 'ava';
import { RsaPool } from '#master/auth/rsa-pool.ts';
import type { RsaOrder, RsaTask } from '#master/auth/rsa-worker.ts';
import { parsePrivateKey } from '#minion-protocol';
import { pem } from '../../helpers/vectors.ts';

const bytes = Buffer.from('what is signed');
const signing: RsaTask & { readonly kind: 'sign' } = {
  kind: 'sign',
  masterKey: parsePrivateKey(pem('master').privatePem),
  bytes,
  algorithm: 'PKCS1v15-SHA224',
};

function isSigned(signature: Uint8Array): boolean {
  return verify('sha224', bytes, createPublicKey(pem('master').publicPem), signature);
}

function pool(t: ExecutionContext): RsaPool {
  const made = new RsaPool();
  t.teardown(() => made.close());
  return made;
}

test('a master gets its turn while another one in the process has 300 pending operations', async (t) => {
  const [busy, quiet] = [pool(t), pool(t)];
  let done = 0;
  const flood = Array.from({ length: 300 }, async () => {
    await busy.run(signing, 'master');
    done += 1;
  });
  t.true(isSigned(await quiet.run(signing, 'master')));
  t.true(done < 150, `${done}`);
  await Promise.all(flood);
});

test('a closed master gets no more results, and others continue', async (t) => {
  const [closing, other] = [pool(t), pool(t)];
  const flood = Array.from({ length: 200 }, () => closing.run(signing, 'master'));
  const settled = Promise.allSettled(flood);
  closing.close();
  await t.throwsAsync(closing.run(signing, 'master'), { code: 'ERR_MASTER_STOPPED' });
  t.true((await settled).some(({ status }) => status === 'rejected'));
  t.is(closing.waiting, 0);
  t.true(isSigned(await other.run(signing, 'master')));
});

test('a flood is refused at its limit, which other masters do not share', async (t) => {
  const [busy, quiet] = [pool(t), pool(t)];
  const flood = Promise.allSettled(Array.from({ length: 5000 }, () => busy.run(signing, 'master')));
  t.true(isSigned(await quiet.run(signing, 'master')));
  busy.close();
  const refused = (await flood).filter(
    (it) => it.status === 'rejected' && it.reason.code === 'ERR_RSA_OVERLOAD',
  );
  t.true(refused.length > 0 && refused.length < 1000, `${refused.length}`);
});

test.serial('a message to a thread contains a token, but not the request around it', async (t) => {
  const request = Buffer.alloc(1_000_000);
  const token = new Uint8Array(request.buffer, 500_000, 256);
  const sizes: number[] = [];
  const { postMessage } = Worker.prototype;
  Worker.prototype.postMessage = function note(orders: readonly RsaOrder[]): void {
    for (const { task } of orders) {
      if (task.kind === 'check-token') sizes.push(task.token.buffer.byteLength);
    }
    postMessage.call(this, orders);
  };
  t.teardown(() => {
    Worker.prototype.postMessage = postMessage;
  });
  const { publicPem } = pem('minion');
  t.false(await pool(t).run({ kind: 'check-token', pem: publicPem, token }, 'web1'));
  t.deepEqual(sizes, [256]);
});

test('an address has its turn while another one has 300 operations waiting', async (t) => {
  const one = pool(t);
  let done = 0;
  const flood = Array.from({ length: 300 }, async () => {
    await one.run(signing, '10.0.0.1');
    done += 1;
  });
  t.true(isSigned(await one.run(signing, '10.0.0.2')));
  t.true(done < 150, `${done}`);
  await Promise.all(flood);
});
