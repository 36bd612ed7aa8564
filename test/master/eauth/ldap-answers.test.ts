/** Limits on the answers of LDAP servers. The servers of these tests are hostile. */
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import test, { type ExecutionContext } from 'ava';
import { resolveMasterConfig } from '#config';
import { createBackends } from '#master/users/backends.ts';
import { LdapMessages } from '#master/users/ldap-answers.ts';
import { userLimits } from '#master/users/limits.ts';

const tags = { bindRequest: 0x60, bindResponse: 0x61, searchRequest: 0x63, searchEntry: 0x64 };

/** Encodes an element of BER. */
function element(tag: number, ...content: readonly Buffer[]): Buffer {
  const bytes = Buffer.concat(content);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  const head = bytes.length < 0x80 ? Buffer.from([bytes.length]) : Buffer.from([0x84, ...length]);
  return Buffer.concat([Buffer.from([tag]), head, bytes]);
}

function message(id: number, operation: Buffer): Buffer {
  return element(0x30, element(0x02, Buffer.from([id])), operation);
}

/** Encodes an entry without attributes. */
function entry(id: number): Buffer {
  return message(id, element(tags.searchEntry, element(0x04), element(0x30)));
}

function success(id: number): Buffer {
  const result = [element(0x0a, Buffer.from([0])), element(0x04), element(0x04)];
  return message(id, element(tags.bindResponse, ...result));
}

/**
 * Starts a server that accepts each bind.
 * @param search - sends the answer to a search
 * @returns a function that logs in
 */
async function startServer(
  t: ExecutionContext,
  search: (socket: Socket, id: number) => void,
): Promise<() => Promise<unknown>> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      // Requests are short, so each has a head of two bytes, and then the number of the message.
      const [id = 0, operation] = [bytes[4], bytes[5]];
      if (operation === tags.bindRequest) socket.write(success(id));
      if (operation === tags.searchRequest) search(socket, id);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  const ldapPort = typeof address === 'object' && address !== null ? address.port : 0;
  const config = resolveMasterConfig({
    externalAuth: { ldap: { fred: ['.*'] } },
    eauth: {
      ldapServer: '127.0.0.1',
      ldapPort,
      ldapAnonymous: true,
      ldapFilter: '(uid={{ username }})',
    },
  });
  const backend = createBackends(config, Date.now).get('ldap');
  const signal = AbortSignal.timeout(20_000);
  return async () => backend?.authenticate({ username: 'fred', password: 'secret' }, signal);
}

test('an LDAP server that sends many entries at once fails the log-in', async (t) => {
  const logIn = await startServer(t, (socket, id) => {
    socket.write(Buffer.concat(Array(6000).fill(entry(id))));
  });
  await t.throwsAsync(logIn(), { code: 'ERR_EAUTH_UNAVAILABLE' });
});

test('an LDAP server that sends an endless message fails the log-in', async (t) => {
  const logIn = await startServer(t, (socket) => {
    socket.write(Buffer.from([0x30, 0x84, 0x7f, 0xff, 0xff, 0xff]));
    const more = (): void => {
      if (socket.write(Buffer.alloc(65_536))) setImmediate(more);
      else socket.once('drain', more);
    };
    more();
  });
  const error = await t.throwsAsync(logIn(), { code: 'ERR_EAUTH_UNAVAILABLE' });
  const cause = error.cause instanceof Error ? error.cause.message : '';
  t.regex(cause, new RegExp(`sent more than ${userLimits.ldapBytes.perOwner} bytes`));
});

test('messages of LDAP are the same however they are divided into chunks', (t) => {
  const sent = [success(1), entry(2), message(3, element(0x64, Buffer.alloc(300))), entry(4)];
  const bytes = Buffer.concat(sent);
  for (const size of [1, 2, 3, 7, 100, bytes.length]) {
    const messages = new LdapMessages();
    const read: Buffer[] = [];
    for (let at = 0; at < bytes.length; at += size) {
      read.push(...messages.read(bytes.subarray(at, at + size)));
    }
    t.deepEqual(read, sent, `${size}`);
  }
});

test('an LDAP server may send a limited number of messages and elements in one connection', (t) => {
  const { perOwner: most = 0 } = userLimits.ldapMessages;
  const many = new LdapMessages();
  for (let sent = 0; sent < most; sent += 1) many.read(entry(1));
  t.throws(() => many.read(entry(1)), { message: /more than 4000 messages/ });
  const values = Array<Buffer>(userLimits.ldapElements.perOwner ?? 0).fill(element(0x04));
  const large = message(1, element(tags.searchEntry, ...values));
  t.throws(() => new LdapMessages().read(large), { message: /more than 100000 elements/ });
});

test('bytes that are not messages of LDAP are rejected', (t) => {
  for (const bytes of [
    [0x16, 3, 1],
    [0x30, 0x80],
    [0x30, 0x85, 0, 0, 0, 0, 1],
    [0x30, 1, 2],
  ]) {
    t.throws(() => new LdapMessages().read(Buffer.from(bytes)));
  }
});
