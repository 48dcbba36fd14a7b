/* PD control of every joint to a pose, with gravity compensation, over shared memory: u = g + m (100 (target - q) - 20 v).
 *
 *     gcc -O2 -o pd examples/external/pd.c
 *     condyle serve ur3 --signal gravity --signal inertia --seconds 5 -o run.cdl &
 *     ./pd robot 0 -1.2 1.2 -1.57 0 0
 */
#include "condyle_link.h"

int main(int count, char **words)
{
    struct condyle_link link;
    if (condyle_connect(&link, count > 1 ? words[1] : "robot", 10.0)) {
        fprintf(stderr, "%s\n", link.message);
        return 1;
    }
    const double *q = condyle_signal(&link, "q"), *v = condyle_signal(&link, "v");
    const double *gravity = condyle_signal(&link, "gravity"), *inertia = condyle_signal(&link, "inertia");
    const struct condyle_row *row = condyle_find(&link, "effort", 1);
    if (!gravity || !inertia || !row) {
        fprintf(stderr, "the simulation must send the signals gravity and inertia, and take the command effort\n");
        condyle_close(&link, "it needs the signals gravity and inertia, and the command effort");
        return 1;
    }
    double *u = link.command + row->first;
    int over;
    while ((over = condyle_receive(&link)) > 0) {
        for (uint32_t i = 0; i < row->count; i++) {
            const double target = (int)i + 2 < count ? atof(words[i + 2]) : 0.0;
            u[i] = gravity[i] + inertia[i] * (100.0 * (target - q[i]) - 20.0 * v[i]);
        }
        condyle_send(&link);
    }
    printf("%s\n", link.message);
    condyle_close(&link, "");
    return over ? 1 : 0;
}
