/**
 * Program that listens on one address, and passes the listening socket to its parent process. The
 * parent starts it in a network namespace. The socket stays in this namespace.
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
