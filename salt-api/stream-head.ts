import type { OutgoingHttpHeaders } from 'node:http';
import type { FastifyReply } from 'fastify';

/** Begins a stream: the head goes out at once, and the reply is the caller's from here on. */
export function sendStreamHead(reply: FastifyReply, headers: OutgoingHttpHeaders): void {
  reply.hijack();
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) reply.raw.setHeader(name, value);
  }
  reply.raw.writeHead(200, headers);
}
