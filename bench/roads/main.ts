/**
 * `npm run roads`: the files of ours in which code runs for one request, start-up subtracted. With
 * `-- --check` it ends with status 1 if a road has more files than its limit; `-- --functions` names
 * the functions that ran in each file.
 */
import { countRoads } from './roads.ts';

const isCheck = process.argv.includes('--check');
const showsFunctions = process.argv.includes('--functions');
for (const { name, limit, files } of await countRoads()) {
  const isOver = files.length > limit;
  const remark = isOver ? `${files.length - limit} more than` : 'limit';
  process.stdout.write(`${name}: ${files.length} files (${remark} ${limit})\n`);
  for (const { file, functions } of files) {
    const names = showsFunctions ? `: ${functions.join(', ')}` : '';
    process.stdout.write(`  ${file}${names}\n`);
  }
  if (isCheck && isOver) process.exitCode = 1;
}
