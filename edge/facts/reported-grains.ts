/** Grains that a site sends to the centre. Targets of orders can use them. */
export const reportedGrains: readonly string[] = [
  ...['os', 'os_family', 'osrelease', 'osfinger', 'oscodename', 'kernel', 'kernelrelease'],
  ...['cpuarch', 'osarch', 'num_cpus', 'mem_total', 'virtual', 'saltversion', 'host', 'fqdn'],
  ...['ipv4', 'roles', 'environment', 'site'],
];
