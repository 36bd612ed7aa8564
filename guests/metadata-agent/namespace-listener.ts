/**
 * Listens on one address and passes the listening socket to its parent process. It is started in a
 * network namespace; the socket remains in the namespace in which it was created.
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
