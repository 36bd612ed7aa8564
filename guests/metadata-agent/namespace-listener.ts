/**
 * Listens at one address and hands the listening socket to the process that started this one. It is
 * started in a network namespace; a socket stays in the namespace that it was made in.
 */

import net from 'node:net';

const [host = '', port = ''] = process.argv.slice(2);
const server = net.createServer();
server.once('error', ({ message }) => {
  process.send?.({ problem: message });
  process.disconnect();
});
server.listen(Number(port), host, () => {
  process.send?.({ problem: '' }, server, {}, () => process.exit());
});
