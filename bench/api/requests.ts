/** Sends requests over a connection, one after the other. */
import { connect } from 'node:net';
import type { RequestOrder, RequestOutcome } from './orders.ts';

/** Sends requests from all clients concurrently, for the time of the order. */
export async function sendRequests(order: RequestOrder): Promise<RequestOutcome> {
  const times: number[] = [];
  let failed = 0;
  const until = performance.now() + order.seconds * 1000;
  const client = async (): Promise<void> => {
    const ask = await openClient(order);
    while (performance.now() < until) {
      const startedAt = performance.now();
      if (await ask()) times.push(performance.now() - startedAt);
      else failed += 1;
    }
  };
  await Promise.all(Array.from({ length: order.clients }, client));
  times.sort((left, right) => left - right);
  const at = (share: number): number => times[Math.floor((times.length - 1) * share)] ?? Number.NaN;
  return {
    answered: times.length,
    failed,
    medianMs: at(0.5),
    p99Ms: at(0.99),
    longestMs: at(1),
  };
}

/**
 * Opens a connection.
 * @returns a function that sends a request and returns whether the minion responded
 */
async function openClient({
  host,
  port,
  token,
  tgt,
}: RequestOrder): Promise<() => Promise<boolean>> {
  const body = JSON.stringify({ client: 'local', tgt, fun: 'test.ping' });
  const request =
    `POST / HTTP/1.1\r\nHost: ${host}:${port}\r\nAccept: application/json\r\n` +
    `Content-Type: application/json\r\nX-Auth-Token: ${token}\r\n` +
    `Content-Length: ${body.length}\r\n\r\n${body}`;
  const socket = connect(port, host).setNoDelay();
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('error', reject);
  });
  socket.unref();
  let text = '';
  let done: (isWell: boolean) => void = () => {};
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
    if (!isWhole(text)) return;
    const isWell = text.startsWith('HTTP/1.1 200') && text.includes('true');
    text = '';
    done(isWell);
  });
  socket.on('close', () => done(false));
  return () =>
    new Promise((resolve) => {
      done = resolve;
      socket.write(request);
    });
}

function isWhole(text: string): boolean {
  const end = text.indexOf('\r\n\r\n');
  const length = /content-length: (\d+)/i.exec(text)?.[1];
  return end !== -1 && length !== undefined && text.length >= end + 4 + Number(length);
}
